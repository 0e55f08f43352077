"""What changed between runs: the first suspects first, and nothing of what nobody told."""

import pytest

from fleet.slow.changed import changes, different, is_other_work, placed, places
from tests.fleet.rows import gpu, node


def test_nothing_is_said_of_what_nobody_told() -> None:
    """Equal, or unknown on one side; long lists and values are cut."""
    many = {f"flag.f{number}": "x" * 200 for number in range(20)}
    long = changes({"driver": "1"}, {"driver": "1"} | many)

    assert changes({"driver": "1"}, {"driver": "1"}) is None
    assert changes({}, {"driver": "1"}) is None
    assert long is not None
    assert long.endswith("; ...")
    assert len(long) < 600


def test_versions_stand_first_and_places_last() -> None:
    """A scheduler places most runs anew."""
    old = {"driver": "1", "cuda": "1", "torch": "1", "image": "1", "env.A": "1", "nodes": "n1", "gpus": "n1:0"}
    new = {"driver": "2", "cuda": "2", "torch": "2", "image": "2", "env.A": "2", "nodes": "n2", "gpus": "n2:0"}

    assert [name for name, _, _ in different(old, new)] == ["driver", "cuda", "torch", "image", "env.A", "nodes"]


@pytest.mark.django_db
def test_other_gpus_are_said_on_the_same_node_alone() -> None:
    """Elsewhere they are others anyway; where one is not known any more, nothing is said."""
    home = node("n1")
    cards = [gpu(home, index) for index in range(4)]
    where = places(card.pk for card in cards)
    first, last = placed([cards[1].pk, cards[0].pk], where), placed([cards[2].pk, cards[3].pk], where)

    assert first == {"nodes": "n1", "gpus": "n1:0,1"}
    assert changes({"driver": "1"} | first, {"driver": "1"} | last) == "GPUs n1:0,1 -> n1:2,3"
    assert placed([cards[0].pk, 10**9], where) == {}
    assert changes({"driver": "1"} | first, {"driver": "1"}) is None


@pytest.mark.parametrize(
    ("flag", "other"), [("flag.per-device-train-batch-size", True), ("flag.seq-length", True), ("flag.num-workers", False)]
)
def test_flags_that_make_the_work_another_are_known(flag: str, other: bool) -> None:
    """Batch and sequence do, loader processes do not."""
    assert is_other_work({flag: "1", "driver": "1"}, {flag: "2", "driver": "1"}) is other
    assert is_other_work({flag: "1"}, {flag: "1"}) is False
