"""Which sample times are taken: bounds on both sides, for clocks that are right and clocks that are off."""

import math

import pytest
from django.conf import LazySettings

from fleet.ingest.skew import Skew
from fleet.ingest.times import MAX_AHEAD_S, TAKEN_WITHIN_S, check_time, clock_off
from fleet.store.kept import Kept, by_settings, kept
from fleet.store.memory import MemorySeries
from wire.codec import WireError

NOW = 1_790_000_000.0
HOUR, DAY = 3600.0, 86_400.0
PARQUET = Kept(raw_s=DAY, any_s=730 * DAY)
VICTORIA = Kept(raw_s=2 * DAY, any_s=2 * DAY)


def clock(ahead: float | None) -> Skew:
    """A clock that is known to be ahead by so much; None: nothing is known of it."""
    skew = Skew()
    if ahead is not None:
        skew.hello(NOW + ahead, NOW)
    return skew


def refusal(t: float, ahead: float | None, keeps: Kept | None) -> str | None:
    """What the refusal says; None where the sample is taken."""
    try:
        check_time(t, 7, clock(ahead), NOW, keeps)
    except WireError as error:
        return error.detail if (error.code, error.seq) == ("bad_time", 7) else f"{error.code} of {error.seq}"
    return None


@pytest.mark.parametrize("keeps", [PARQUET, VICTORIA, None])
def test_a_clock_may_be_a_minute_ahead(keeps: Kept | None) -> None:
    """To the second; what lies further ahead, or is no time, is refused whatever is kept."""
    assert refusal(NOW + MAX_AHEAD_S, MAX_AHEAD_S, keeps) is None
    assert "61 s ahead of this server" in str(refusal(NOW + MAX_AHEAD_S + 1, None, keeps))
    assert "never set" in str(refusal(3_600_000.0, None, keeps))
    assert refusal(math.nan, None, keeps) == "t is not a number"


@pytest.mark.parametrize("keeps", [PARQUET, VICTORIA])
def test_a_clock_may_be_behind_by_less_than_rows_are_kept(keeps: Kept) -> None:
    """To the second on both sides; how far it is behind is said, and is the clock's fault."""
    most = keeps.raw_s - TAKEN_WITHIN_S

    assert refusal(NOW - most, -most, keeps) is None
    assert "so is the node's clock" in str(refusal(NOW - most - 1, -most - 1, keeps))
    assert clock_off(NOW - most - 1, clock(-most - 1), NOW, keeps) == -most - 1
    assert clock_off(NOW + 3600, clock(None), NOW, keeps) == 3600


def test_a_backlog_of_a_clock_that_is_right_is_taken_as_long_as_anything_is_kept() -> None:
    """Rows of a month ago become roll-ups in files; what is kept in no form is refused, and no clock is blamed."""
    for ahead in (0.0, -HOUR, None):
        assert refusal(NOW - 30 * DAY, ahead, PARQUET) is None
        assert refusal(NOW - 730 * DAY + TAKEN_WITHIN_S, ahead, PARQUET) is None
        assert refusal(NOW - 731 * DAY, ahead, PARQUET) == "t is 731.0 days ago; the store keeps 730 days"
        assert refusal(NOW - 2 * DAY + TAKEN_WITHIN_S, ahead, VICTORIA) is None
        assert refusal(NOW - 2 * DAY, ahead, VICTORIA) == "t is 2.0 days ago; the store keeps 2 days"
        assert clock_off(NOW - 731 * DAY, clock(ahead), NOW, PARQUET) is None


def test_a_row_is_judged_by_the_time_it_is_stored_under() -> None:
    """A clock that is known to be off moves what readers see, never a row: VictoriaMetrics drops it by the node's own time."""
    assert refusal(NOW - 3 * DAY, -3 * DAY, VICTORIA) is not None
    assert refusal(NOW - 47 * HOUR, -47 * HOUR, VICTORIA) is None


def test_a_clock_that_was_set_right_is_believed_by_its_next_sample() -> None:
    """The first that is young is taken although the hello's clock was days behind; without one, no node would come back."""
    assert refusal(NOW, -3 * DAY, PARQUET) is None
    assert refusal(NOW - HOUR, -3 * DAY, VICTORIA) is None


def test_what_is_kept_is_as_the_settings_say_or_as_the_server_does(settings: LazySettings) -> None:
    """Nothing is known of a server that has not told yet; the longest level counts for what is kept in any form."""
    settings.FETTLE_RETAIN_RAW_H, settings.FETTLE_RETAIN_1H_D = 48, 100

    class Serving(MemorySeries):
        """An engine whose server tells."""

        keeps_s: float | None = None

    served = Serving()
    assert kept(served) is None
    served.keeps_s = 9.0
    assert kept(served) == Kept(9.0, 9.0)
    assert kept(MemorySeries()) == Kept(48 * HOUR, 100 * DAY)
    assert by_settings()[1] == 48 * HOUR
