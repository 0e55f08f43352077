"""What is under way of one hello's records: sent again without an answer, put back when asked for, forgotten once settled."""

import pytest

from agents.lane import UNANSWERED_S, Lane
from agents.segment import BATCH, EVENT, Group
from wire.messages import Hello


@pytest.fixture
def lane() -> Lane:
    """Three batches and an event of an earlier run."""
    group = Group(Hello(node="n", boot="b", agent_version="1", schema="s"))
    group.places[BATCH].update(dict.fromkeys(range(3), b"batch"))
    group.places[EVENT][0] = b"event"
    return Lane(group)


def test_what_waited_before_the_connection_is_backlog_and_what_is_new_is_fresh(lane: Lane) -> None:
    """New batches travel before old ones, events before both."""
    lane.offer(BATCH, 3)
    lane.offer(EVENT, 1)

    assert (list(lane.events), list(lane.fresh), list(lane.backlog)) == ([0, 1], [3], [0, 1, 2])
    assert list(lane.take_new()) == [(EVENT, 0), (EVENT, 1), (BATCH, 3)]
    assert lane.has_any


def test_only_what_got_no_answer_for_long_is_sent_again(lane: Lane) -> None:
    """The server keeps one of the two."""
    lane.events.clear()
    lane.backlog.clear()
    lane.in_flight = {(EVENT, 0): 0.0, (BATCH, 0): 1.0, (BATCH, 1): 2.0}
    assert not lane.has_any
    lane.send_again(UNANSWERED_S + 1)

    assert (list(lane.events), list(lane.backlog)) == ([0], [0])
    assert list(lane.in_flight) == [(BATCH, 1)]


def test_a_record_that_is_not_under_way_is_not_put_back(lane: Lane) -> None:
    """It would be sent twice."""
    lane.put_back(BATCH, 2)

    assert list(lane.backlog) == [0, 1, 2]


def test_settled_records_are_under_way_no_more(lane: Lane) -> None:
    """Of their kind alone: events and batches are numbered each by themselves."""
    lane.in_flight = {(BATCH, 0): 0.0, (EVENT, 0): 0.0, (BATCH, 1): 0.0}
    del lane.group.places[BATCH][0]
    lane.forget_settled(BATCH)

    assert list(lane.in_flight) == [(EVENT, 0), (BATCH, 1)]
