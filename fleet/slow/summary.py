"""Median and spread of values that come one a minute for weeks: counts by steps of a logarithmic scale, which only add up."""

import math
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

STEP: Final = 0.002
"""Width of a step of the scale: a median is right to 0.1 %."""
MAD_TO_SIGMA: Final = 1.4826
"""A median absolute deviation times this is the standard deviation of a normal distribution."""
MAX_STEPS: Final = 2000
"""Different steps of one measure; a value that would need more is left out."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median, and 1.4826 times the median absolute deviation from it."""

    median: float
    mad: float


def add(counts: MutableMapping[str, int], value: float | None) -> None:
    """Count a value; one that is none or is not above zero is left out."""
    if value is None or not math.isfinite(value) or value <= 0:
        return
    step = str(round(math.log(value) / STEP))
    if step in counts or len(counts) < MAX_STEPS:
        counts[step] = counts.get(step, 0) + 1


def spread(counts: Mapping[str, int]) -> Spread | None:
    """The spread of what was counted; None of nothing."""
    return weighted((math.exp(int(step) * STEP), count) for step, count in counts.items())


def weighted(values: Iterable[tuple[float, int]]) -> Spread | None:
    """The spread of values with how often each came; None of none."""
    known = list(values)
    if not known:
        return None
    median = _median(known)
    return Spread(median, MAD_TO_SIGMA * _median([(abs(value - median), count) for value, count in known]))


def _median(values: list[tuple[float, int]]) -> float:
    values = sorted(values)
    total = sum(count for _, count in values)
    low = high = None
    seen = 0
    for value, count in values:
        seen += count
        if low is None and seen * 2 >= total:
            low = value
        if seen * 2 > total:
            high = value
            break
    assert low is not None and high is not None  # noqa: S101, PT018 - counts are positive
    return (low + high) / 2
