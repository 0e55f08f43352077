"""Where a job's GPUs could be had."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from fleet.findings.lifecycle import Place as Spot
from fleet.findings.lifecycle import report
from fleet.health.needs import Answer, Wanted
from fleet.health.placement import place
from fleet.inventory.models import Gpu, Node
from fleet.jobs.holdings import Given
from fleet.jobs.telling import Told, tell
from fleet.store.series import store
from tests.fleet.rows import found, gpu, node

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("memory_store")]
AT = datetime(2026, 11, 1, 12, tzinfo=UTC)
EIGHT = Wanted(gpus=8)


def machine(name: str, gpus: int = 8, *, seen_s: float = 5, **more: Any) -> list[Gpu]:
    """A node that reported a moment ago, with cards that NVLink joins."""
    of = node(name, last_seen_at=AT - timedelta(seconds=seen_s))
    return [
        gpu(of, index, **{"nvlink_links": 18, "power_limit_w": 700.0, "numa_node": index // 4, **more}) for index in range(gpus)
    ]


def job(name: str, devices: str | list[str], number: str = "1") -> None:
    """A job that holds devices of the node."""
    given = Given(node=name, devices=list(devices), shared=False)
    tell([Told(cluster="west", job_id=number, started_at=AT - timedelta(hours=1), allocations=[given])], AT)


def sick(card: Gpu, rule: str = "row-remap-failed", severity: Any = "critical") -> None:
    """Something is wrong with the card."""
    report(AT - timedelta(minutes=5), found(str(card.pk), rule, severity), Spot(card.node_id, (card.pk,)))


def drawn(cards: list[Gpu], now: int) -> None:
    """Each draws 100 W."""
    store().write(
        "gpu",
        pl.DataFrame({"entity": [card.pk for card in cards], "ts": [now - 1] * len(cards), "power_w": [100.0] * len(cards)}),
    )


def names(answer: Answer) -> list[str]:
    """The nodes in their order."""
    return [one.node.name for one in answer.places]


def why(answer: Answer) -> dict[str, list[str]]:
    """The nodes that were left out, by reason."""
    return {one.why: one.nodes for one in answer.left_out}


def test_a_node_with_enough_free_gpus_fits_and_the_others_say_why_not() -> None:
    """Each reason with its nodes."""
    machine("fits")
    machine("small", 4)
    machine("other", model="NVIDIA L40S")
    machine("silent", seen_s=120)
    machine("held")
    sick(machine("bad")[3])
    sick(machine("slow")[0], "clocks-locked-low", "warn")
    for card in machine("late"):
        Gpu.objects.filter(pk=card.pk).update(present=False)
    job("held", "0", "2")

    answer = place(Wanted(gpus=8, model="h200"), AT)

    assert names(answer) == ["fits"]
    assert answer.fits_total == 1
    assert [card.index for card in answer.places[0].gpus] == list(range(8))
    assert why(answer) == {
        "model": ["late", "other", "small"], "unknown": ["silent"], "drain": ["bad"], "avoid": ["slow"], "held": ["held"],
    }  # fmt: skip


def test_whole_nodes_are_kept_for_those_who_need_them() -> None:
    """The node on which the fewest free GPUs would be left over comes first."""
    machine("whole")
    machine("part")
    job("part", "0123")

    assert names(place(Wanted(gpus=2), AT)) == ["part", "whole"]
    assert [card.index for card in place(Wanted(gpus=2), AT).places[0].gpus] == [4, 5]
    assert names(place(EIGHT, AT)) == ["whole"]


def test_only_what_is_usable_is_offered_unless_less_will_do() -> None:
    """Of a node with a slow card its other cards are; with healthy=false that one too, behind the rest; what is to be drained never."""
    cards = machine("slow")
    sick(cards[2], "clocks-locked-low", "warn")
    sick(machine("bad")[0])
    found_on = place(Wanted(gpus=7), AT).places[0]
    assert (found_on.node.name, found_on.state, [card.index for card in found_on.gpus]) == (
        "slow",
        "usable",
        [0, 1, 3, 4, 5, 6, 7],
    )
    assert names(place(EIGHT, AT)) == []

    answer = place(Wanted(gpus=8, healthy=False), AT)
    assert names(answer) == ["slow"]
    assert why(answer) == {"drain": ["bad"]}


def test_what_was_let_go_is_free_again() -> None:
    """As soon as the end is told."""
    machine("n1")
    job("n1", "01234567")
    assert why(place(EIGHT, AT)) == {"held": ["n1"]}
    tell([Told(cluster="west", job_id="1", state="completed", ended_at=AT)], AT)
    assert names(place(EIGHT, AT)) == ["n1"]


def test_gpus_that_are_given_without_a_name_are_not_given_twice() -> None:
    """Two of eight are held, and nobody knows which."""
    machine("n1")
    job("n1", ["gpu:h200:2"])

    assert why(place(Wanted(gpus=7), AT)) == {"held": ["n1"]}
    (one,) = place(Wanted(gpus=6), AT).places
    assert one.free_total == 6
    assert any("do not say which" in reason for reason in one.reasons)


def test_a_gpu_with_a_process_is_not_free() -> None:
    """Whether or not somebody told of a job; a process that is gone holds nothing."""
    cards = machine("n1")
    now = int(AT.timestamp())
    drawn(cards, now)
    there = {
        "entity": [cards[0].pk, cards[1].pk],
        "ts": [now - 1, now - 40],
        "pid": [7, 8],
        "name": ["a", "b"],
        "user": ["ada", "bob"],
    }
    store().write("process", pl.DataFrame(there | {"gpu_mem_bytes": [1, 1]}))

    assert why(place(EIGHT, AT)) == {"busy": ["n1"]}
    (one,) = place(Wanted(gpus=7), AT).places
    assert [card.index for card in one.gpus] == [1, 2, 3, 4, 5, 6, 7]


def test_power_headroom_is_what_each_card_may_draw_more_than_now() -> None:
    """A limit that was set low leaves none, and so does one that nobody told; the least of those taken is said."""
    cards = machine("n1", 2)
    machine("mute", 2)
    now = int(AT.timestamp())
    Gpu.objects.filter(pk=cards[1].pk).update(power_limit_w=300.0)
    drawn(cards, now)

    (one,) = place(Wanted(gpus=1, power_headroom_w=500), AT).places
    assert ([card.index for card in one.gpus], one.power_headroom_w) == ([0], 600.0)
    assert why(place(Wanted(gpus=2, power_headroom_w=500), AT)) == {"power": ["mute", "n1"]}
    (both,) = place(Wanted(gpus=2, power_headroom_w=200), AT).places
    assert both.power_headroom_w == 200.0


@pytest.mark.parametrize(
    ("more", "fits"),
    [({}, True), ({"nvlink_links": 0}, False), ({"nvlink_links": None}, False), ({"model": "NVIDIA H100 NVL"}, False), ({"model": "NVIDIA A100-PCIE-80GB"}, False)],
)  # fmt: skip
def test_one_nvlink_domain_needs_links_between_all(more: dict[str, Any], fits: bool) -> None:
    """Cards in pairs behind bridges are none: which ones, nobody tells."""
    machine("n1", **more)
    answer = place(Wanted(gpus=4, one_nvlink_domain=True), AT)

    assert names(answer) == (["n1"] if fits else [])
    assert why(answer) == ({} if fits else {"nvlink": ["n1"]})
    assert names(place(Wanted(gpus=4), AT)) == ["n1"]


def test_cards_of_one_numa_node_are_taken_where_they_are_enough() -> None:
    """On the fuller of two."""
    machine("n1")
    job("n1", "01")
    (one,) = place(Wanted(gpus=2), AT).places
    assert [card.index for card in one.gpus] == [2, 3]
    assert any("NUMA node 0" in reason for reason in one.reasons)


def test_slices_and_split_cards_are_not_whole_gpus() -> None:
    """A card that is split belongs to its instances."""
    cards = machine("n1", 2)
    Gpu.objects.filter(pk=cards[0].pk).update(mig_mode=True)
    gpu(Node.objects.get(), 0, uuid="MIG-1", parent_uuid=cards[0].uuid)

    assert why(place(Wanted(gpus=2), AT)) == {"model": ["n1"]}
    assert [card.index for card in place(Wanted(gpus=1), AT).places[0].gpus] == [1]


def test_a_list_of_places_has_the_length_asked_for() -> None:
    """And says how many there are."""
    for number in range(40):
        machine(f"n{number:02}", 1)
    answer = place(Wanted(gpus=1, limit=35), AT)

    assert (len(answer.places), answer.fits_total) == (35, 40)
    assert names(answer) == [f"n{number:02}" for number in range(35)]
