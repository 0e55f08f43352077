"""The ledger counts everything and speaks seldom."""

import time
from datetime import UTC, datetime

import pytest

from fleet.ingest.ledger import Ledger, write
from fleet.inventory.models import Node


def test_a_stranger_is_logged_once_a_minute_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    """A wrong token that knocks all the time is one line; another peer's is its own."""
    ledger = Ledger()
    for _ in range(50):
        ledger.stranger("10.0.0.1")
    ledger.stranger("10.0.0.2")

    assert len(caplog.records) == 2
    assert ledger.refused["", "wrong_token"].total == 51


def seen(at: float, node: Node) -> float:
    """When the node was last seen, as its row says after a round of books that noted a sample of `at`."""
    ledger = Ledger()
    ledger.saw(node.pk, at)
    write(ledger.take(), "p")
    node.refresh_from_db()
    assert node.last_seen_at is not None
    return node.last_seen_at.timestamp()


@pytest.mark.django_db
def test_a_round_that_holds_a_backlog_alone_does_not_move_last_seen_back() -> None:
    """Nor does a server that has just started and knows of no newer sample."""
    node, now = Node.objects.create(name="n"), 1_750_000_000.0

    assert seen(now, node) == now
    assert seen(now - 500, node) == now
    assert seen(now + 0.5, node) == now + 0.5


@pytest.mark.django_db
def test_what_the_servers_own_clock_wrote_while_it_was_ahead_is_corrected() -> None:
    """The one case in which it steps back: else the node would look alive until that time has come."""
    now = round(time.time())
    node = Node.objects.create(name="n", last_seen_at=datetime.fromtimestamp(now + 7200, UTC))

    assert seen(now - 1, node) == now - 1


@pytest.mark.django_db
def test_books_that_could_not_be_written_keep_the_newest() -> None:
    """An older note that comes back does not hide, and is not hidden by, an older one."""
    ledger, node = Ledger(), Node.objects.create(name="n")
    ledger.saw(node.pk, 1_750_000_000.0)
    taken = ledger.take()
    ledger.saw(node.pk, 1_740_000_000.0)
    ledger.put_back(taken)

    assert ledger.take().seen == {node.pk: 1_750_000_000.0}


@pytest.mark.django_db
def test_a_clock_that_is_no_longer_known_is_written_as_not_known() -> None:
    """What an earlier connection told must not move the times of one that tells nothing."""
    ledger, node = Ledger(), Node.objects.create(name="n", clock_skew_s=-600.0)
    for _ in range(2):
        ledger.clock(node.pk, None)
        write(ledger.take(), "p")
    node.refresh_from_db()
    assert node.clock_skew_s is None
    ledger.clock(node.pk, 0.1)
    write(ledger.take(), "p")
    node.refresh_from_db()

    assert node.clock_skew_s == 0.1
