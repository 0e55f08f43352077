"""`course(times_s, values)`: how a figure went over the runs of a job family: where it changed for good, and whether it drifts.

Times and energies vary by factors, not by amounts: all is computed on logarithms. Change points are those of PELT with a squared cost
(ruptures), on values in units of the runs' own noise; a single run that is far off is drawn near to its neighbours first, and is no
change. A drift is the Theil-Sen slope (scipy) with its 95 % interval. Where a slope says it with less than steps do, by the Bayesian
information criterion, there are no change points.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np

PENALTY: Final = 6.0
"""Of a change point, times the logarithm of the number of runs: how often it finds one in noise, and how often one that is there, is
measured in bench/change_points.py and written in docs/explanation/baselines.md."""
SHORTEST: Final = 3
"""Runs of a level; fewer are an exception."""
LEAST: Final = math.log(1.03)
"""A smaller change of level is none that anybody would look for."""
DRIFT_RUNS: Final = 8
"""The slope of fewer runs says little."""
DRIFT_DAYS: Final = 1.0
_DAY_S: Final = 86_400.0
_LEAST_NOISE: Final = 0.005
"""Runs that are alike to a hair do not make half a percent a change."""
_NEIGHBOURS: Final = 7
_NEAR: Final = 3.0
"""Times the noise that a run may be off the median of its neighbours."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A slow change: the factor by which the figure grew over `days`, and the ends of its 95 % interval."""

    days: float
    ratio: float
    low_ratio: float
    high_ratio: float

    @property
    def is_sure(self) -> bool:
        """True where the interval leaves out that nothing drifts."""
        return self.low_ratio > 1 or self.high_ratio < 1


@dataclass(frozen=True, slots=True)
class Course:
    """`changes`: of each run with which another level begins, its place. `drift`: of the newest level; None of too few runs."""

    changes: tuple[int, ...]
    drift: Drift | None


@lru_cache(maxsize=8192)
def course(times_s: tuple[float, ...], values: tuple[float, ...]) -> Course:
    """The course of `values`, all above zero, of runs that began at `times_s`, oldest first."""
    logs: Any = np.log(np.asarray(values, dtype=float))
    changes: list[int] = []
    if len(values) >= 2 * SHORTEST:
        noise = _noise(logs)
        calm = _calm(logs, noise)
        changes = _significant(logs, _pelt(calm / noise))
        if changes and _is_slope(times_s, calm, changes):
            changes = []
    first = changes[-1] if changes else 0
    return Course(tuple(changes), _drift(times_s[first:], logs[first:]))


def _noise(logs: Any) -> float:
    """The standard deviation from one run to the next, whatever the levels are."""
    steps = np.diff(logs)
    return max(float(1.4826 * np.median(np.abs(steps - np.median(steps))) / math.sqrt(2)), _LEAST_NOISE)


def _calm(logs: Any, noise: float) -> Any:
    """The values with single ones that are far off drawn near to their neighbours."""
    from scipy.ndimage import median_filter  # here: it takes a second to load, and few programs need it

    beside = median_filter(logs, _NEIGHBOURS, mode="mirror")
    return np.clip(logs, beside - _NEAR * noise, beside + _NEAR * noise)


def _pelt(scaled: Any) -> list[int]:
    import ruptures

    found = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(scaled.reshape(-1, 1))
    return [int(place) for place in found.predict(pen=PENALTY * math.log(len(scaled)))[:-1]]


def _significant(logs: Any, changes: list[int]) -> list[int]:
    """Without those between levels that hardly differ, the smallest first."""
    while changes:
        levels = [float(np.median(logs[low:high])) for low, high in pairwise([0, *changes, len(logs)])]
        gaps = [abs(after - before) for before, after in pairwise(levels)]
        smallest = min(range(len(gaps)), key=gaps.__getitem__)
        if gaps[smallest] >= LEAST:
            return changes
        changes = changes[:smallest] + changes[smallest + 1 :]
    return changes


def _is_slope(times_s: Sequence[float], calm: Any, changes: Sequence[int]) -> bool:
    from scipy.stats import theilslopes

    if len(set(times_s)) < 2:
        return False
    days = (np.asarray(times_s, dtype=float) - times_s[0]) / _DAY_S
    line = theilslopes(calm, days, method="joint")
    beside = float(np.sum((calm - line.intercept - line.slope * days) ** 2))
    within = sum(
        float(np.sum((calm[low:high] - np.mean(calm[low:high])) ** 2)) for low, high in pairwise([0, *changes, len(calm)])
    )
    return _criterion(len(calm), beside, 2) < _criterion(len(calm), within, 2 * len(changes) + 1)


def _criterion(runs: int, squares: float, parameters: int) -> float:
    return runs * math.log(max(squares / runs, _LEAST_NOISE**2)) + parameters * math.log(runs)


def _drift(times_s: Sequence[float], logs: Any) -> Drift | None:
    from scipy.stats import theilslopes

    span = (times_s[-1] - times_s[0]) / _DAY_S if times_s else 0.0
    if len(times_s) < DRIFT_RUNS or span < DRIFT_DAYS:
        return None
    slope, _, low, high = theilslopes(logs, (np.asarray(times_s, dtype=float) - times_s[0]) / _DAY_S, 0.95)
    if not all(map(math.isfinite, (slope, low, high))):
        return None
    grown = [math.exp(min(max(one * span, -20.0), 20.0)) for one in (float(slope), float(low), float(high))]
    return Drift(span, *grown)
