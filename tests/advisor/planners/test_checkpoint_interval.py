"""Checkpoint interval: the worked examples."""

from math import inf, nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.checkpoint_interval import GPU_HOURS_PER_FAILURE, checkpoint_interval, daly_s, mtbf_s, overhead, young_s

CLOSE = 0.005


def test_the_default_rate_is_that_of_the_public_run() -> None:
    """419 interruptions in 54 days on 16,384 GPUs; such a job fails every 3.093 hours."""
    assert pytest.approx(50_677, rel=1e-4) == GPU_HOURS_PER_FAILURE
    assert mtbf_s(16_384) / 3600 == pytest.approx(3.093, rel=CLOSE)


@pytest.mark.parametrize(
    ("gpus", "hours", "young", "overhead_pct"),
    [(16_384, 3.093, 1155.9, 10.4), (1024, 49.49, 4623.8, 2.60), (256, 197.96, 9247.6, 1.30), (64, 791.8, 18_495, 0.65)],
)
def test_intervals_with_a_stall_of_a_minute(gpus: int, hours: float, young: float, overhead_pct: float) -> None:
    """By Young, and what it costs."""
    told = checkpoint_interval(gpus, 60)

    assert told.mtbf_hours == pytest.approx(hours, rel=CLOSE)
    assert told.young_s == pytest.approx(young, rel=CLOSE)
    assert told.overhead_ratio * 100 == pytest.approx(overhead_pct, rel=CLOSE)


@pytest.mark.parametrize(("gpus", "daly"), [(16_384, 1116.3), (1024, 4583.9)])
def test_intervals_by_daly(gpus: int, daly: float) -> None:
    """A little shorter, as saving takes time too."""
    assert checkpoint_interval(gpus, 60).daly_s == pytest.approx(daly, rel=CLOSE)


def test_spot_capacity_that_lasts_a_day() -> None:
    """With a stall of two minutes; the job's own time wins over the rate."""
    told = checkpoint_interval(8, 120, mtbf_hours=24)

    assert told.young_s == pytest.approx(4553.7, rel=CLOSE)
    assert told.daly_s == pytest.approx(4474.0, rel=CLOSE)
    assert told.overhead_ratio == pytest.approx(0.0527, rel=CLOSE)


def test_a_failure_loses_half_an_interval_and_the_restart() -> None:
    """On every GPU."""
    assert checkpoint_interval(100, 60, restart_s=1800, interval_s=3600).lost_gpu_hours_per_failure == pytest.approx(100)


def test_a_save_that_takes_longer_than_the_job_lives_is_made_once_a_life() -> None:
    """Daly's limit."""
    assert daly_s(200, 100) == 100


@settings(deadline=None)
@given(st.floats(0.1, 1e4), st.floats(0.1, 10.0))
def test_youngs_interval_costs_least(stall: float, times: float) -> None:
    """Of all intervals, to first order."""
    mean = 1e6
    best = young_s(stall, mean)

    assert overhead(stall, mean, best) <= overhead(stall, mean, best * times) * (1 + 1e-12)


@settings(deadline=None)
@given(st.integers(1, 100_000), st.floats(0.1, 600))
def test_more_gpus_save_more_often(gpus: int, stall: float) -> None:
    """They fail more often."""
    assert checkpoint_interval(gpus + 1, stall).young_s < checkpoint_interval(gpus, stall).young_s


@pytest.mark.parametrize("bad", [0, -1, nan, inf, 1e30])
def test_numbers_that_cannot_be_are_refused(bad: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^stall_s must be .*\.$"):
        checkpoint_interval(8, bad)
    with pytest.raises(ValueError, match=r"^mtbf_hours must be .*\.$"):
        checkpoint_interval(8, 60, mtbf_hours=bad)
    with pytest.raises(ValueError, match=r"^gpus must be a whole number"):
        mtbf_s(0)
