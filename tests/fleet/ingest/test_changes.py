"""How much news one node may tell: a storm of names and labels costs its own node alone."""

import pytest

from fleet.ingest import changes as module
from fleet.ingest.changes import Changes
from tests.fleet.ingest.telling import URL, Teller, engines, processes
from wire.codec import WireError

pytestmark = pytest.mark.django_db


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Changes:
    """Shares of four changes that never come back."""
    monkeypatch.setattr(module, "CHANGES_AT_ONCE", 4)
    monkeypatch.setattr(module, "CHANGES_PER_S", 0.0)
    return Changes()


def test_what_is_told_again_costs_nothing(small: Changes) -> None:
    """Every tick names the engines; a new boot, and another connection, name everything once more."""
    teller = Teller()
    for at in range(50):
        taken = teller.says(at, engines=engines(URL), processes=processes({7: "python"}, {7: {"torch": "2.9"}}))
        small.take(taken.session, taken.batch)


def test_beyond_its_share_a_node_hears_busy_and_others_are_taken(small: Changes) -> None:
    """Labels that change without end, and ever new names of engines, wait with their agent."""
    storm, calm = Teller("a"), Teller("b")
    for at in range(2):
        taken = storm.says(at, processes=processes({7: "p"}, {7: {"torch": str(at)}}), engines=engines(f"http://h:{at}"))
        small.take(taken.session, taken.batch)
    for bad in (storm.says(3, processes=processes({7: "p"}, {7: {"torch": "x"}})), storm.says(4, engines=engines("http://new")),
                storm.says(5, engines=engines("http://h:1", model="other"))):  # fmt: skip
        with pytest.raises(WireError, match="busy"):
            small.take(bad.session, bad.batch)

    for taken in (calm.says(0, engines=engines("http://new")), storm.says(6, engines=engines("http://h:1")), storm.says(7)):
        small.take(taken.session, taken.batch)


def test_a_share_comes_back_with_time(monkeypatch: pytest.MonkeyPatch, small: Changes) -> None:
    """What was refused as busy is taken later."""
    teller = Teller()
    taken = teller.says(0, engines=engines(*(f"http://h:{n}" for n in range(4))))
    small.take(taken.session, taken.batch)
    more = teller.says(1, engines=engines("http://more"))
    with pytest.raises(WireError, match="busy"):
        small.take(more.session, more.batch)
    monkeypatch.setattr(module, "CHANGES_PER_S", 1e9)

    small.take(more.session, more.batch)


def test_any_one_batch_fits_into_a_whole_share() -> None:
    """Else it would wait for ever."""
    from fleet.ingest.accept import MAX_ENGINES, MAX_PROCESSES

    assert module.CHANGES_AT_ONCE >= MAX_ENGINES + MAX_PROCESSES


def test_what_is_remembered_of_a_node_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many names it tells over time, and nothing once it is forgotten."""
    monkeypatch.setattr(module, "MAX_KNOWN", 8)
    changes, teller = Changes(), Teller()
    for at in range(50):
        taken = teller.says(at, engines=engines(f"http://h:{at}"))
        changes.take(taken.session, taken.batch)
        assert len(changes._nodes[teller.row.pk].known) <= 8
    changes.forget(teller.row.pk)

    assert not changes._nodes
