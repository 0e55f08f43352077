"""Median and spread from counts: as of the values themselves."""

import math
from statistics import median

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.slow.summary import MAX_STEPS, add, spread, weighted


def counted(*values: float | None) -> dict[str, int]:
    """What was counted of them."""
    counts: dict[str, int] = {}
    for value in values:
        add(counts, value)
    return counts


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=50))
def test_the_median_is_that_of_the_values_to_a_step(values: list[float]) -> None:
    """Whatever they are; a step is 0.2 % wide."""
    found = spread(counted(*values))

    assert found is not None
    assert found.median == pytest.approx(median(values), rel=0.0011)


def test_the_spread_is_that_of_a_normal_distribution() -> None:
    """1.4826 times the median absolute deviation; of 1, 2, 3, 4, 100 the median is 3, the deviation 1."""
    found = weighted([(1, 1), (2, 1), (3, 1), (4, 1), (100, 1)])

    assert found is not None
    assert found.median == 3
    assert found.mad == pytest.approx(1.4826)


def test_counts_weigh() -> None:
    """Nine of one value and one of another."""
    found = weighted([(5, 9), (1, 1)])

    assert found is not None
    assert (found.median, found.mad) == (5, 0)
    assert weighted([(1, 1), (2, 1)]) == weighted([(2, 5), (1, 5)])


def test_what_is_no_value_is_left_out() -> None:
    """None, zero, negative and not finite."""
    assert counted(None, 0.0, -1.0, math.nan, math.inf) == {}
    assert spread({}) is None


def test_it_stays_small() -> None:
    """However wild the values are."""
    counts = counted(*(math.exp(number / 100) for number in range(-3000, 3000)))

    assert len(counts) == MAX_STEPS
