"""From times to scores: the numbers that a reader can work out by hand."""

import pytest

from agents.bench.arithmetic import (
    all_reduce_bus_bytes,
    iterations,
    matmul_flop,
    percentile,
    rates,
    slope_per_min,
)


def test_percentiles_lie_between_two_values_by_proportion() -> None:
    """As NumPy's default has them."""
    assert percentile([3.0, 1.0, 2.0, 4.0], 0.5) == 2.5
    assert percentile([10.0], 0.95) == 10.0
    assert percentile([float(n) for n in range(101)], 0.05) == 5.0
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 0.5)


def test_a_rate_is_the_amount_over_the_median_time() -> None:
    """p5 is the rate of the slow ones: the 95th percentile of the times."""
    found = rates([0.001] * 90 + [0.002] * 10, 8.0)

    assert found == (8000.0, 4000.0, 8000.0)
    with pytest.raises(ValueError, match="0 or less"):
        rates([0.001, 0.0], 1.0)


def test_a_product_of_8192_is_1100_gflop() -> None:
    """2 * 8192 ** 3."""
    assert matmul_flop(8192, 8192, 8192) == 1_099_511_627_776.0
    assert matmul_flop(8192, 14336, 4096) == 2.0 * 8192 * 14336 * 4096


@pytest.mark.parametrize(("ranks", "factor"), [(1, 0.0), (2, 1.0), (4, 1.5), (8, 1.75)])
def test_bus_bandwidth_has_the_factor_of_nccl_tests(ranks: int, factor: float) -> None:
    """2(n-1)/n of the bytes go over each rank's link."""
    assert all_reduce_bus_bytes(1 << 30, ranks) == (1 << 30) * factor


def test_the_planner_and_the_bench_agree_on_an_all_reduce() -> None:
    """T8.1: 14 GB over 8 ranks at a bus bandwidth of 480 GB/s take 51.0 ms; so that time gives that bandwidth."""
    assert all_reduce_bus_bytes(14_000_000_000, 8) / 0.05104 == pytest.approx(480e9, rel=1e-3)


@pytest.mark.parametrize(
    ("one_s", "budget_s", "expected"),
    [(0.001, 1.0, (50, 100)), (0.01, 1.5, (50, 100)), (0.022, 1.5, (23, 45)), (1.0, 1.5, (1, 5)), (0.0, 1.0, (50, 100))],
)
def test_the_protocol_is_kept_where_there_is_time(one_s: float, budget_s: float, expected: tuple[int, int]) -> None:
    """50 to warm up and 100 timed; else as many as fit, in the same proportion, and 5 at least."""
    assert iterations(one_s, budget_s) == expected


def test_a_slope_is_told_a_minute() -> None:
    """2 °C in 60 s; of two points or of one moment, none."""
    assert slope_per_min([(0.0, 50.0), (30.0, 51.0), (60.0, 52.0)]) == pytest.approx(2.0)
    assert slope_per_min([(0.0, 50.0), (60.0, 52.0)]) is None
    assert slope_per_min([(5.0, 50.0)] * 4) is None
