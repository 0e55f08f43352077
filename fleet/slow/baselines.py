"""The baseline of a run's figure: the level of its family's runs before, whether that drifts, and since which run it is worse.

The newest runs of the newest level are the baseline. Where the newest level is a worse one and has no more than NEWEST_RUNS runs, the
level before it is: a regression does not become the usual by staying. Where it has more, it has become so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from advisor.course import LEAST, Course, Drift, course
from fleet.slow.past_runs import ENOUGH_MINUTES, Past, step_time_s
from fleet.slow.summary import weighted

ENOUGH_RUNS: Final = 3
"""Fewer are no baseline."""
NEWEST_RUNS: Final = 10
"""Of a level, that make the baseline; and the runs after which a worse level is the usual one."""
ENERGY_SPAN: Final = timedelta(days=28)


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a run. `of(one, run)`: that of `one` as it compares with `run`; `is_worse_up`: more of it is worse."""

    name: str
    unit: str
    of: Callable[[Past, Past], float | None]
    is_worse_up: bool = True
    span: timedelta | None = None


STEP_TIME: Final = Measure("step_time_s", "seconds", step_time_s)
THROUGHPUT: Final = Measure("samples_per_s", "per_second", lambda one, _: one.samples_per_s, is_worse_up=False)
ENERGY: Final = Measure("energy_j_per_sample", "joules", lambda one, _: one.energy_j_per_sample, span=ENERGY_SPAN)
MEASURES: Final = (STEP_TIME, THROUGHPUT, ENERGY)


@dataclass(frozen=True, slots=True)
class Level:
    """A change for good: the last run before it, the first with it, and the levels."""

    last: Past
    first: Past
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a figure is compared with. `ratio`: the run's own to the median, None while it has none.

    `first_bad` and `last_good`: the runs between which it got worse, where it is worse now; `bad_runs`: how many are, the newest included.
    """

    measure: Measure
    median: float
    mad: float
    runs: int
    newest: Past
    value: float | None
    drift: Drift | None
    levels: tuple[Level, ...]
    first_bad: Past | None
    last_good: Past | None
    bad_runs: int

    @property
    def ratio(self) -> float | None:
        """The run's own figure to the baseline's."""
        return self.value / self.median if self.value is not None else None


def baseline(measure: Measure, run: Past, before: Sequence[Past], at: datetime) -> Baseline | None:
    """The baseline of `run` by `before`, runs that are alike, oldest first; None where fewer than ENOUGH_RUNS tell the figure.

    Energy of a sample is compared over the last weeks alone: what a card draws changes with the season.
    """
    known = [
        (one, value)
        for one in before
        if (value := measure.of(one, run)) and (measure.span is None or at - one.last_seen <= measure.span)
    ]
    if len(known) < ENOUGH_RUNS:
        return None
    own = measure.of(run, run)
    is_known = bool(own) and run.minutes >= ENOUGH_MINUTES
    told = [*known, (run, own)] if own and is_known else known
    way = course(tuple(one.first_seen.timestamp() for one, _ in told), tuple(value for _, value in told))
    level, first = _usual(measure, way, [value for _, value in told])
    usual = [pair for pair in told[level[0] : level[1]] if pair[0] is not run][-NEWEST_RUNS:]
    if len(usual) < ENOUGH_RUNS:
        usual = known[-NEWEST_RUNS:]
    found = weighted((value, 1) for _, value in usual)
    assert found is not None  # noqa: S101 - there are ENOUGH_RUNS
    if is_known:
        first = _since(measure, told, found.median, first)
    return Baseline(
        measure, found.median, found.mad, len(known), usual[-1][0], own or None, way.drift, _levels(way, told),
        first_bad=told[first][0] if first is not None else None,
        last_good=told[first - 1][0] if first else None,
        bad_runs=len(told) - first if first is not None else 0,
    )  # fmt: skip


def spread_within(runs: Sequence[Past]) -> float | None:
    """How far the steps of one run usually lie from each other, in seconds; None where none tells."""
    within = [one.step_time_mad_s for one in runs if one.step_time_mad_s is not None]
    return median(within) if within else None


def worse(measure: Measure, value: float, than: float) -> float:
    """By which factor `value` is worse than `than`; below one: it is better."""
    return value / than if measure.is_worse_up else than / value


def _usual(measure: Measure, way: Course, values: Sequence[float]) -> tuple[tuple[int, int], int | None]:
    """From which run to which the usual level is, and the first run of a worse one after it."""
    edges = [0, *way.changes, len(values)]
    low, high = edges[-2], edges[-1]
    if len(edges) > 2 and high - low <= NEWEST_RUNS:
        before, after = median(values[edges[-3] : low]), median(values[low:])
        if worse(measure, after, before) > 1:
            return (edges[-3], low), low
    return (low, high), None


def _since(measure: Measure, told: Sequence[tuple[Past, float]], usual: float, level: int | None) -> int | None:
    """The first run of the worse level, else of the newest runs in a row that are nearer to the newest one's figure than to the usual.

    None where the newest run's figure is not worse.
    """
    factor = worse(measure, told[-1][1], usual)
    if factor < 1 + LEAST:
        return None
    if level is not None:
        return level
    first = len(told) - 1
    while first > 0 and worse(measure, told[first - 1][1], usual) >= factor**0.5:
        first -= 1
    return first if first > 0 else None


def _levels(way: Course, told: Sequence[tuple[Past, float]]) -> tuple[Level, ...]:
    values = [value for _, value in told]
    edges = [0, *way.changes, len(values)]
    return tuple(
        Level(told[low - 1][0], told[low][0], median(values[start:low]), median(values[low:high]))
        for start, low, high in zip(edges, edges[1:], edges[2:], strict=False)
    )
