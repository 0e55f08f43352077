"""How much of what a job held was used: quantiles of activity, idle hours, energy, coverage.

Its GPUs are read in buckets as short as the time and the number of GPUs allow (MOST_VALUES), a few at a time; what is kept of a bucket is its
share of a histogram, so that a month of 512 GPUs takes no more memory than an hour of one. A bucket of several seconds is a mean: quantiles are
of such means, and `resolution_s` says how long they are.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from advisor.samples import ACTIVE, HELD_BYTES
from fleet.reports.spans import HOUR_S, Held, Span
from fleet.store import clock
from fleet.store.hourly import hours
from fleet.store.kept import DAY_S, kept
from fleet.store.series import LEVELS, store

MOST_VALUES: Final = 500_000
"""Buckets of all its GPUs together."""
ROWS_AT_ONCE: Final = 200_000
QUANTILES: Final = (5, 25, 50, 75, 95)
SHARES: Final = ("busy", "sm_active", "tensor_active", "dram_active")
"""What quantiles are made of: the compute engine's time, and the units'."""
FEW_GPUS: Final = 16
"""Of more, hours are read of all at once: one by one a month of each takes a third of a second."""
TAIL_S: Final = 6 * HOUR_S
"""What is not rolled up yet is read by the minute, if it is no more than this."""
_STEPS: Final = 1000
_READ_S: Final = 60
"""A bucket this long has readings of its own of what is read every quarter of a minute."""
_IDLE: Final = pl.col("busy_max") < ACTIVE
_METRICS: Final = (
    "gr_engine_active", "gpu_util_pct", "sm_active", "tensor_active", "dram_active", "mem_used_bytes", "power_w", "energy_j_total",
)  # fmt: skip


@dataclass(slots=True)
class Sums:
    """What is added up over a GPU's buckets, in seconds, joules, or seconds by step of a share."""

    covered_s: float = 0.0
    judged_s: float = 0.0
    idle_s: float = 0.0
    memory_s: float = 0.0
    unheld_s: float = 0.0
    energy_j: float = 0.0
    energy_s: float = 0.0
    idle_j: float = 0.0
    idle_told_s: float = 0.0
    levels: dict[str, npt.NDArray[np.float64]] = field(default_factory=lambda: {name: np.zeros(_STEPS + 1) for name in SHARES})


@dataclass(slots=True)
class Usage:
    """The sums of the whole job, and by GPU the median of its engine's time and the seconds in which it did nothing."""

    resolution_s: int
    sums: Sums
    busy_p50: dict[int, float]
    idle_s: dict[int, float] = field(default_factory=dict)


def used(held: Held, intervals: Mapping[int, float], now: float) -> Usage:
    """What the store says of the spans; `intervals` are the seconds between two samples by node. StoreError when it cannot be read."""
    step_s = resolution(held, now)
    whole = Sums()
    busy_p50: dict[int, float] = {}
    idle_s: dict[int, float] = defaultdict(float)
    for frame, spans, length in _frames(held.spans, step_s):
        rows = _figures(frame, spans, intervals, length)
        _fold(whole, rows)
        joules, known_s = _energy(rows, length)
        whole.energy_j += joules
        whole.energy_s += known_s
        _medians(busy_p50, rows)
        for gpu, seconds in rows.filter(_IDLE).group_by("gpu").agg(pl.col("seconds").sum()).iter_rows():
            idle_s[gpu] += seconds
    return Usage(step_s, whole, busy_p50, dict(idle_s))


def resolution(held: Held, now: float) -> int:
    """Seconds of a bucket: the store's finest level that keeps within MOST_VALUES, and that goes back as far as the job."""
    total_s = sum(span.seconds for span in held.spans)
    step_s = next((level for level in LEVELS if total_s / level <= MOST_VALUES), LEVELS[-1])
    if step_s == LEVELS[0]:
        keeps = kept(store())
        if keeps is not None and held.start < now - keeps.raw_s:
            return LEVELS[1]
    return step_s


def quantiles(levels: npt.NDArray[np.float64]) -> dict[str, float] | None:
    """`p5` to `p95` of a histogram; None where nothing was measured."""
    total = float(levels.sum())
    if total <= 0:
        return None
    sofar = np.cumsum(levels)
    return {f"p{one}": float(np.searchsorted(sofar, total * one / 100 - 1e-9)) / _STEPS for one in QUANTILES}


def _medians(known: dict[int, float], rows: pl.DataFrame) -> None:
    """Add each GPU's median; one that is there already has it of a longer stretch."""
    half = (
        rows.filter(pl.col("busy").is_not_null())
        .sort("gpu", "busy")
        .with_columns(sofar=pl.col("seconds").cum_sum().over("gpu"), all=pl.col("seconds").sum().over("gpu"))
        .filter(pl.col("sofar") >= pl.col("all") / 2)
        .group_by("gpu", maintain_order=True)
        .agg(pl.col("busy").first())
    )
    for gpu, busy in half.iter_rows():
        known.setdefault(gpu, busy)


def _frames(spans: Sequence[Span], step_s: int) -> Iterator[tuple[pl.DataFrame, Sequence[Span], int]]:
    """Buckets of some GPUs at a time, the spans that they are of, and how long they are.

    Columns: `gpu`, `ts`, `<metric>_n` (samples; not of raw rows), and of each metric mean, lowest and highest.
    """
    by_gpu = _by_gpu(spans)
    if step_s == HOUR_S and len(by_gpu) > FEW_GPUS:
        cut = yield from _hours(spans)
        spans = [Span(one.gpu, one.node, max(one.start, cut), one.end) for one in spans if one.end > cut]
        by_gpu = _by_gpu(spans)
        if spans and max(one.end for one in spans) - cut <= TAIL_S:
            step_s = _READ_S
    if step_s > 1:
        ahead = clock.ahead("gpu", list(by_gpu))
        for gpu, own in by_gpu.items():
            frame = clock.series("gpu", gpu, _METRICS, own[0].start, own[-1].end, step_s, ahead=ahead, full=True)
            yield frame.with_columns(gpu=pl.lit(gpu, pl.Int64)), own, step_s
        return
    group: list[int] = []
    rows = 0
    for gpu, own in by_gpu.items():
        group.append(gpu)
        rows += own[-1].end - own[0].start
        if rows >= ROWS_AT_ONCE:
            yield _raw(group, by_gpu), spans, step_s
            group, rows = [], 0
    if group:
        yield _raw(group, by_gpu), spans, step_s


def _hours(spans: Sequence[Span]) -> Generator[tuple[pl.DataFrame, Sequence[Span], int], None, int]:
    """As `_frames`, of the roll-ups of an hour that the engine has at hand, a day of all GPUs at a time; returns up to when they go."""
    start, end = min(one.start for one in spans) // HOUR_S * HOUR_S, max(one.end for one in spans)
    gpus = pl.Series(sorted({one.gpu for one in spans}))
    cut = start
    for day in range(start, end, DAY_S):
        found = hours(store(), "gpu", day, min(day + DAY_S, end), _METRICS)
        if found is None:
            return start
        found = found.with_columns(gpu=pl.col("entity").cast(pl.Int64)).filter(pl.col("gpu").is_in(gpus.implode()))
        if found.height:
            cut = int(found.select(pl.col("ts").max()).item()) + HOUR_S
            until = min(day + DAY_S, cut)
            part = [
                Span(one.gpu, one.node, max(one.start, day), min(one.end, until))
                for one in spans
                if one.start < until and one.end > day
            ]
            yield found, part, HOUR_S
    return cut


def _by_gpu(spans: Sequence[Span]) -> dict[int, list[Span]]:
    found: dict[int, list[Span]] = {}
    for span in spans:
        found.setdefault(span.gpu, []).append(span)
    return found


def _raw(gpus: Sequence[int], by_gpu: Mapping[int, Sequence[Span]]) -> pl.DataFrame:
    start, end = min(by_gpu[gpu][0].start for gpu in gpus), max(by_gpu[gpu][-1].end for gpu in gpus)
    frame = clock.window("gpu", start, end, gpus, _METRICS).rename({"entity": "gpu"})
    return frame.with_columns(
        pl.col(name).alias(f"{name}_max") for name in ("gr_engine_active", "gpu_util_pct", "mem_used_bytes")
    )


def _figures(frame: pl.DataFrame, spans: Iterable[Span], intervals: Mapping[int, float], step_s: int) -> pl.DataFrame:
    """One row a bucket of a span: `seconds` that it stands for, and what counts of it."""
    held = pl.DataFrame(
        [(span.gpu, number, span.start, span.end, intervals.get(span.node, 1.0)) for number, span in enumerate(spans)],
        schema={"gpu": pl.Int64, "span": pl.Int64, "start": pl.Int64, "end": pl.Int64, "interval": pl.Float64},
        orient="row",
    )
    n = pl.max_horizontal(f"{name}_n" for name in ("gr_engine_active", "gpu_util_pct", "power_w")) if step_s > 1 else pl.lit(1)
    read = pl.any_horizontal(pl.col(name).is_not_null() for name in _METRICS)  # a row without any value says that a driver hangs
    rows = frame.with_columns(pl.col("gpu").cast(pl.Int64), pl.col("ts").cast(pl.Int64)).filter(read).join(held, on="gpu")
    rows = rows.filter((pl.col("ts") < pl.col("end")) & (pl.col("ts") + step_s > pl.col("start"))).sort("span", "ts")
    inside = pl.min_horizontal(pl.col("ts") + step_s, "end") - pl.max_horizontal("ts", "start")
    rows = rows.with_columns(
        inside=(inside / step_s).cast(pl.Float64),
        span_s=pl.max_horizontal(pl.lit(float(step_s)), "interval"),
    ).with_columns(
        seconds=pl.min_horizontal(
            n * pl.col("interval") * pl.col("inside"), pl.col("span_s"), pl.col("end") - pl.max_horizontal("ts", "start")
        )
    )
    return rows.select(
        "gpu",
        "seconds",
        *[pl.col(name).clip(0, 1) for name in SHARES[1:]],
        busy=pl.coalesce("gr_engine_active", pl.col("gpu_util_pct") / 100).clip(0, 1),
        busy_max=pl.coalesce("gr_engine_active_max", pl.col("gpu_util_pct_max") / 100),
        memory_max=pl.col("mem_used_bytes_max"),
        span="span",
        ts="ts",
        whole=pl.col("inside") >= 1,
        watts="power_w",
        counter="energy_j_total",
    )


def _energy(rows: pl.DataFrame, step_s: int) -> tuple[float, float]:
    """Joules, and the seconds that they are of: between the readings of a counter what it grew by, elsewhere power over time.

    The counter is read every quarter of a minute and held until it is read again: a value that is new is a reading, the first of a
    span may be of before. Where it falls it began anew. What a silent node used is counted, if its counter went on.
    """
    first = pl.col("ts") == pl.col("ts").min().over("span")
    new = (pl.col("counter") != pl.col("counter").shift(1).over("span")).fill_null(True) & ((step_s >= _READ_S) | ~first)
    reading = pl.when(new & pl.col("whole")).then("counter")
    rows = rows.with_columns(reading=reading, number=pl.int_range(pl.len()))
    told = rows.filter(pl.col("reading").is_not_null()).with_columns(
        part=(pl.col("reading") < pl.col("reading").shift(1).over("span")).fill_null(False).cum_sum().over("span")
    )
    parts = told.group_by("span", "part").agg(
        (pl.col("reading").last() - pl.col("reading").first()).alias("joules"),
        (pl.col("ts").last() - pl.col("ts").first()).alias("time_s"),
        pl.col("number").first().alias("from"),
        pl.col("number").last().alias("to"),
    )
    counted = np.zeros(rows.height + 1, dtype=np.int64)
    np.add.at(counted, parts["from"].to_numpy() + 1, 1)
    np.add.at(counted, parts["to"].to_numpy() + 1, -1)
    rest = rows.filter(pl.Series(np.cumsum(counted)[:-1] == 0)).select("watts", "seconds").drop_nulls()
    joules = float(parts["joules"].sum()) + float((rest["watts"] * rest["seconds"]).sum())
    return joules, float(parts["time_s"].sum()) + float(rest["seconds"].sum())


def _fold(sums: Sums, rows: pl.DataFrame) -> None:
    seconds = pl.col("seconds")
    totals = rows.select(
        covered_s=seconds.sum(),
        judged_s=seconds.filter(pl.col("busy_max").is_not_null()).sum(),
        idle_s=seconds.filter(_IDLE).sum(),
        memory_s=seconds.filter(pl.col("memory_max").is_not_null() & pl.col("busy_max").is_not_null()).sum(),
        unheld_s=seconds.filter(_IDLE & (pl.col("memory_max") < HELD_BYTES)).sum(),
        idle_j=(pl.col("watts") * seconds).filter(_IDLE).sum(),
        idle_told_s=seconds.filter(_IDLE & pl.col("watts").is_not_null()).sum(),
    ).row(0, named=True)
    for name, value in totals.items():
        setattr(sums, name, getattr(sums, name) + float(value or 0))
    for name in SHARES:
        known = rows.select(name, "seconds").drop_nulls()
        places = (known[name].to_numpy() * _STEPS).round().astype(np.int64)
        sums.levels[name] += np.bincount(places, weights=known["seconds"].to_numpy(), minlength=_STEPS + 1)


def figures(held: Held, usage: Usage) -> tuple[dict[str, Any], dict[str, str]]:
    """The report's figures, and by name why one is absent."""
    sums, own_s = usage.sums, sum(span.seconds for span in held.spans)
    found: dict[str, Any] = {
        "gpu_hours": held.own_s / 3600,
        "shared_gpu_hours": held.shared_s / 3600,
        "unknown_gpu_hours": held.unknown_s / 3600,
        "coverage": min(sums.covered_s / held.own_s, 1.0) if held.own_s else 0.0,
        "resolution_s": usage.resolution_s,
        "idle_gpu_hours": sums.idle_s / 3600 if sums.judged_s else None,
        "unheld_gpu_hours": sums.unheld_s / 3600 if sums.memory_s else None,
        "energy_j": sums.energy_j if sums.energy_s else None,
        "energy_coverage": min(sums.energy_s / held.own_s, 1.0) if held.own_s else 0.0,
        "quantiles": {name: told for name in SHARES if (told := quantiles(sums.levels[name])) is not None},
    }
    why = "shared" if not own_s and held.shared_s else "unknown_devices" if not own_s else "no_readings"
    absent = {
        name: why if not sums.covered_s else "not_measured"
        for name in ("idle_gpu_hours", "unheld_gpu_hours", "energy_j")
        if found[name] is None
    }
    absent |= {
        f"quantiles.{name}": why if not sums.covered_s else "not_measured" for name in SHARES if name not in found["quantiles"]
    }
    return found, absent
