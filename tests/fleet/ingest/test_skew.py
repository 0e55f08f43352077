"""A node's clock is judged by its hellos and its quickest batches; a backlog says nothing of it."""

import pytest

from fleet.ingest.skew import DOUBT_S, Skew

NOW = 1_750_000_000.0


def test_delay_does_not_look_like_a_wrong_clock() -> None:
    """Of batches that took 0.1 to 30 s the quickest tells the skew."""
    skew = Skew()
    for second, delay in enumerate((30.0, 5.0, 0.1, 12.0)):
        skew.learn(1000.0 + second + 2.5 - delay, 1000.0 + second)

    assert skew.value is not None
    assert abs(skew.value - 2.4) < 1e-6


def test_a_backlog_beside_live_data_changes_nothing() -> None:
    """Batches of hours ago are late, not a clock that is hours behind."""
    skew = Skew()
    skew.learn(1000.0, 1000.0)
    skew.learn(1000.0 - 7200, 1001.0)

    assert skew.value == 0.0


def test_a_backlog_alone_tells_nothing() -> None:
    """Until something is live there is no estimate."""
    skew = Skew()
    skew.learn(1000.0, 90_000.0)

    assert skew.value is None


@pytest.mark.parametrize("late", [4.0, 20.0, 580.0, 3600.0])
@pytest.mark.parametrize("told", [True, False])
def test_a_backlog_that_flows_as_steadily_as_a_clock_is_none(late: float, told: bool) -> None:
    """Ten minutes of it, a second apart: nothing, or what the hello said, however short the delay."""
    skew = Skew()
    skew.hello(NOW if told else None, NOW)
    for second in range(600):
        skew.learn(NOW + second - late, NOW + second)

    assert skew.value == (0.0 if told else None)
    assert skew.whole == 0


def test_a_backlog_after_live_data_never_moves_the_estimate() -> None:
    """What was once proved is not forgotten because nothing proved it again."""
    skew = Skew()
    skew.learn(NOW, NOW)
    for second in range(600):
        skew.learn(NOW + second - 25, NOW + second)

    assert skew.value == 0.0


def test_a_clock_that_was_set_back_is_believed_by_a_new_hello_that_the_server_asks_for() -> None:
    """Late batches alone might be a backlog; so it asks, once in a while, and a hello settles it."""
    skew = Skew()
    skew.hello(NOW + 3600, NOW)
    asked = []
    for second in range(1, 200):
        skew.learn(NOW + second, NOW + second)
        if skew.asks(NOW + second):
            asked.append(second)
    assert asked == [61, 122, 183]
    assert skew.value == 3600
    skew.hello(NOW + 200, NOW + 200)

    assert skew.value == 0
    assert not skew.asks(NOW + 300.0 - DOUBT_S)


def test_a_clock_that_was_set_back_for_sure_is_asked_for_at_once() -> None:
    """A higher number with an earlier time is proof: the next hello counts, however soon it comes."""
    skew = Skew()
    skew.hello(NOW, NOW)
    skew.learn(NOW + 5, NOW + 5)
    skew.set_back()
    skew.learn(NOW - 3594, NOW + 6)
    assert skew.asks(NOW + 6)
    assert not skew.asks(NOW + 7)
    skew.hello(NOW - 3593, NOW + 7)

    assert skew.value == -3600
    skew.hello(NOW - 3600, NOW + 8)
    assert skew.value == -3600


def test_who_tells_no_time_is_not_asked() -> None:
    """An agent that is older than that field would answer with the same hello."""
    skew = Skew()
    skew.learn(NOW + 50, NOW)
    for second in range(300):
        skew.learn(NOW + second, NOW + second)

        assert not skew.asks(NOW + second)


def test_a_hello_that_waited_behind_batches_changes_nothing() -> None:
    """It lowers an estimate only where batches speak against it too."""
    skew = Skew()
    skew.hello(NOW, NOW)
    skew.learn(NOW + 10, NOW + 10)
    skew.hello(NOW + 1, NOW + 31)

    assert skew.value == 0


def test_a_hello_tells_the_skew_at_once() -> None:
    """However far it is off: a hello is said as it is sent. A backlog after it changes nothing."""
    behind = Skew()
    behind.hello(10_000_000_000.0 - 7200, 10_000_000_000.0)
    behind.learn(10_000_000_000.0 - 90_000, 10_000_000_001.0)
    untold = Skew()
    untold.hello(None, 10_000_000_000.0)

    assert (behind.value, behind.whole) == (-7200, -7200)
    assert (untold.value, untold.whole) == (None, 0)
