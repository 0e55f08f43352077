"""A node's clock is judged by its quickest batches; a backlog says nothing of it."""

from fleet.ingest.accept import Skew


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


def test_a_clock_that_was_set_right_is_forgotten_within_minutes() -> None:
    """The largest of the last two minutes counts, not of all time."""
    skew = Skew()
    skew.learn(1050.0, 1000.0)
    for second in range(1, 130):
        skew.learn(1000.0 + second, 1000.0 + second)

    assert skew.value == 0.0


def test_a_clock_far_behind_is_told_from_a_backlog_by_its_steadiness() -> None:
    """An hour behind for two minutes is a clock; a backlog of an hour that catches up is none."""
    slow, catching_up = Skew(), Skew()
    for second in range(130):
        slow.learn(100_000.0 + second - 3600, 100_000.0 + second)
        catching_up.learn(100_000.0 - 7200 + 25.0 * second, 100_000.0 + second)

    assert slow.value == -3600
    assert catching_up.value is None


def test_a_hello_tells_the_skew_at_once() -> None:
    """However far it is off: a hello is said as it is sent. A backlog after it changes nothing."""
    behind = Skew()
    behind.hello(10_000_000_000.0 - 7200, 10_000_000_000.0)
    behind.learn(10_000_000_000.0 - 90_000, 10_000_000_001.0)
    untold = Skew()
    untold.hello(None, 10_000_000_000.0)

    assert (behind.value, behind.whole) == (-7200, -7200)
    assert (untold.value, untold.whole) == (None, 0)


def test_a_backlog_of_minutes_is_no_clock_that_is_behind() -> None:
    """Ten minutes late is late, whether a hello told the time or not."""
    told, untold = Skew(), Skew()
    told.hello(1_750_000_000.0 + 7200, 1_750_000_000.0)
    for second in range(10):
        untold.learn(1_750_000_000.0 - 580 + 10 * second, 1_750_000_000.0 + second)
        told.learn(1_750_000_000.0 - 580 + 10 * second, 1_750_000_000.0 + second)

    assert untold.value is None
    assert told.value == 7200
