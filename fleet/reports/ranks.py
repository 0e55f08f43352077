"""How the ranks of a job differ, and what its script reported: step times, samples and tokens a second, by GPU."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from advisor.samples import known_sum
from fleet.inventory.models import Gpu
from fleet.reports.spans import Held
from fleet.store import clock
from fleet.store.kept import kept
from fleet.store.series import rounded, store

BUCKETS: Final = 120
SPOTS: Final = 12
ROWS_AT_ONCE: Final = 50_000
FEW_GPUS: Final = 16
"""Of so many the roll-ups are asked one by one, where no rows are kept as they were written."""
SHOWN: Final = 8
"""So many of the slowest and of the fastest are named; of fewer, all."""
_RATES: Final = ("samples_per_s", "tokens_per_s")
_METRICS: Final = ("step_time_s", *_RATES)


@dataclass(slots=True)
class Reported:
    """By GPU the medians of what its processes told, and the job's sums of rates; None where nobody told any."""

    step_time_s: dict[int, float] = field(default_factory=dict)
    steps: list[float] = field(default_factory=list)
    samples_per_s: float | None = None
    tokens_per_s: float | None = None


def reported(held: Held, now: float) -> Reported:
    """What the processes on the job's own GPUs told. StoreError when the store cannot be read.

    All of a short job's rows are read, of others SPOTS stretches of what is kept as it was written.
    """
    told = pl.concat(list(_rows(held, now)) or [_NOTHING])
    if told.is_empty() and len(held.gpus) <= FEW_GPUS:
        told = pl.concat([_NOTHING, *_rolled(held)])
    found = Reported()
    steps = told.filter(pl.col("step_time_s").is_not_null())
    found.step_time_s = dict(steps.group_by("gpu").agg(pl.col("step_time_s").median()).sort("gpu").iter_rows())
    found.steps = steps["step_time_s"].to_list()
    sums = told.group_by("gpu").agg(pl.col(name).mean() for name in _RATES).select(_RATES)
    found.samples_per_s, found.tokens_per_s = (float(sums[name].sum()) if sums[name].count() else None for name in _RATES)
    return found


_NOTHING: Final = pl.DataFrame(schema={"gpu": pl.Int64, **dict.fromkeys(_METRICS, pl.Float64)})


def _rows(held: Held, now: float) -> Iterator[pl.DataFrame]:
    """One row a GPU and stretch of time: the median step, and the rates of its processes together."""
    keeps = kept(store())
    start = held.start if keeps is None else max(held.start, int(now - keeps.raw_s))
    whole = held.end - start
    if whole <= 0 or not held.gpus:
        return
    length = ROWS_AT_ONCE // len(held.gpus)
    spots = 1 if whole <= length else SPOTS
    length = whole if spots == 1 else max(30, min(length, whole // (2 * SPOTS)))
    bucket = max(10, length // max(1, BUCKETS // spots))
    own = pl.DataFrame(
        [(span.gpu, span.start, span.end) for span in held.spans],
        schema={"gpu": pl.Int64, "from": pl.Int64, "to": pl.Int64},
        orient="row",
    )
    for number in range(spots):
        first = start + (0 if spots == 1 else whole * number // spots + (whole // spots - length) // 2)
        frame = clock.window("process", first, first + length, list(held.gpus), _METRICS)
        frame = frame.with_columns(pl.col("entity").cast(pl.Int64).alias("gpu")).join(own, on="gpu")
        frame = frame.filter((pl.col("ts") >= pl.col("from")) & (pl.col("ts") < pl.col("to")))
        each = frame.group_by("gpu", pl.col("ts") // bucket, "pid").agg(
            pl.col("step_time_s").median(), *[pl.col(name).mean() for name in _RATES]
        )
        yield (
            each.group_by("gpu", "ts")
            .agg(pl.col("step_time_s").median(), *[known_sum(pl.col(name)).alias(name) for name in _RATES])
            .select("gpu", *_METRICS)
        )


def _rolled(held: Held) -> Iterator[pl.DataFrame]:
    step_s = rounded(max(60, (held.end - held.start) // BUCKETS))
    ahead = clock.ahead("gpu", held.gpus)
    for span in held.spans:
        frame = clock.series("process", span.gpu, _METRICS, span.start, span.end, step_s, ahead=ahead)
        yield frame.select(pl.lit(span.gpu, pl.Int64).alias("gpu"), *[pl.col(name).cast(pl.Float64) for name in _METRICS])


def spread(held: Held, told: Reported, busy_p50: Mapping[int, float]) -> dict[str, Any] | None:
    """The ranks by their step time where most GPUs have one, else by how busy their engine is; None for fewer than two.

    `ratio`: the slowest over the fastest step time, or the busiest over the least busy; `rows`, the slowest first.
    """
    by_step = len(told.step_time_s) >= max(2, len(held.gpus) / 2)
    values = told.step_time_s if by_step else dict(busy_p50)
    if len(values) < 2:
        return None
    order = sorted(values, key=lambda gpu: (-values[gpu] if by_step else values[gpu], gpu))
    shown = order if len(order) <= 2 * SHOWN else [*order[:SHOWN], *order[-SHOWN:]]
    cards = {card.pk: card for card in Gpu.objects.select_related("node").filter(pk__in=shown)}
    high, low = max(values.values()), min(values.values())
    return {
        "by": "step_time_s" if by_step else "busy",
        "ranks": len(order),
        "p50": float(pl.Series(list(values.values())).median()),  # type: ignore[arg-type]
        "low": low,
        "high": high,
        "ratio": high / low if low > 0 else None,
        "rows": [
            {
                "gpu": pk,
                "node": cards[pk].node.name,
                "index": cards[pk].index,
                "step_time_s": told.step_time_s.get(pk),
                "busy": busy_p50.get(pk),
            }
            for pk in shown
            if pk in cards
        ],
    }
