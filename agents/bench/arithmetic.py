"""From times to scores: rates, percentiles, the factors of collectives, the slope of a temperature."""

from collections.abc import Sequence
from typing import Final, NamedTuple

WARM_UP: Final = 50
TIMED: Final = 100
"""B-4 of the bench protocols: 50 iterations to warm up, 100 that are timed; fewer where those would take too long."""
FEWEST: Final = 5


class Rates(NamedTuple):
    """An amount over the median time, and over the slow (p5) and the fast (p95) ones; of an amount a second."""

    value: float
    p5: float
    p95: float


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of them lie, between two of them by proportion; ValueError of none."""
    if not values:
        raise ValueError("there is no percentile of nothing")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def rates(times_s: Sequence[float], amount: float) -> Rates:
    """`amount` a second, by the times that it took each time; ValueError where a time is not above 0."""
    if min(times_s, default=0.0) <= 0:
        raise ValueError("a time of 0 or less was measured")
    return Rates(*(amount / percentile(times_s, share) for share in (0.5, 0.95, 0.05)))


def matmul_flop(m: int, n: int, k: int) -> float:
    """Floating point operations of one product (m, k) x (k, n): a multiplication and an addition each."""
    return 2.0 * m * n * k


def all_reduce_bus_bytes(size_bytes: int, ranks: int) -> float:
    """Bytes that every rank's link carries one way in an all-reduce, nccl-tests' factor 2(n-1)/n: by them rings of any size compare."""
    return size_bytes * 2.0 * (ranks - 1) / ranks


def iterations(one_s: float, budget_s: float) -> tuple[int, int]:
    """How many to warm up with and how many to time, within about `budget_s` at `one_s` each."""
    fit = int(budget_s / one_s) if one_s > 0 else WARM_UP + TIMED
    if fit >= WARM_UP + TIMED:
        return WARM_UP, TIMED
    timed = max(FEWEST, fit * TIMED // (WARM_UP + TIMED))
    return max(1, min(WARM_UP, fit - timed)), timed


def slope_per_min(points: Sequence[tuple[float, float]]) -> float | None:
    """Least squares through (second, value), a minute; None of fewer than three points or of one moment."""
    if len(points) < 3:
        return None
    t0 = sum(t for t, _ in points) / len(points)
    v0 = sum(v for _, v in points) / len(points)
    spread = sum((t - t0) ** 2 for t, _ in points)
    if spread <= 0:
        return None
    return 60.0 * sum((t - t0) * (v - v0) for t, v in points) / spread
