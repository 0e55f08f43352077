"""Buckets that a Prometheus makes itself, for spans of which the scrapes would be too many to send.

A bucket in which something cannot be told (DCGM's "no value", a share that may be a percentage) is absent as a whole. Of a
split GPU no server can do it, for its lowest and highest are those of sums over its instances: those are made from rows.
"""

from collections.abc import Collection, Sequence
from typing import Final

import polars as pl

from fleet.store import prometheus_cells, promql
from fleet.store.columns import Table
from fleet.store.endpoint import Endpoint
from fleet.store.prometheus_cells import Floats, Habits

LAST_S: Final = 0.001
"""A function over a range looks back from its own time: at the last ms of a bucket it sees that bucket alone."""


class _Learnt(Habits):
    """What was learnt from scrapes: means tell nothing of whether they are of ratios or percentages."""

    def __init__(self, habits: Habits) -> None:
        self._percent = habits._percent

    def watch(self, exporter: str, values: Floats) -> None:
        """Learn nothing."""


def buckets(
    read: Endpoint,
    selector: str,
    table: Table,
    uuid: str,
    fields: Collection[str],
    names: Sequence[str],
    start: int,
    end: int,
    step_s: int,
    habits: Habits,
) -> pl.DataFrame:
    """As Series.series answers for one GPU. The first and the last bucket are whole, whatever the span asked for."""
    first, last = start // step_s * step_s, (end - 1) // step_s * step_s

    def ask(what: str, learnt: Habits) -> pl.DataFrame:
        found: list[promql.Result] = []
        for field in fields:  # one by one: a function over a range loses the name
            either = [promql.joined(f'{label}="{uuid.partition(":")[0]}"', selector) for label in ("UUID", "uuid")]
            query = " or ".join(f"{what}_over_time({field}{{{matchers}}}[{step_s}s])" for matchers in either)
            some = promql.over(read, query, first + step_s - LAST_S, last + step_s - LAST_S, step_s)
            for one in some:
                one.metric["__name__"] = field
            found += some
        told = prometheus_cells.rows(prometheus_cells.readings(found, learnt), {uuid: 0})
        lacking = [pl.lit(None, pl.Float64).alias(name) for name in names if name not in told.columns]
        return told.with_columns(pl.col("ts") + 1 - step_s, *lacking).select("ts", *names)

    highest = ask("max", habits)  # first, for scrapes as they are teach habits
    learnt = _Learnt(habits)
    parts = {what: ask(what, learnt) for what in ("min", "avg", "last")}
    frame = highest.rename({name: f"{name}_max" for name in names})
    for what, part in parts.items():
        frame = frame.join(part.rename({name: f"{name}:{what}" for name in names}), on="ts", how="left")
    made: list[pl.Expr] = [pl.col("ts").cast(pl.Int64)]
    for name in names:
        column = table.columns[name]
        mean = f"{name}:last" if column.keeps_last else f"{name}:avg"
        told = pl.all_horizontal(pl.col(one).is_not_null() for one in (mean, f"{name}:min", f"{name}_max"))
        for source, shown in ((mean, name), (f"{name}:min", f"{name}_min"), (f"{name}_max", f"{name}_max")):
            kind = column.read if column.keeps_last or shown != name else pl.Float64
            value = pl.when(told).then(pl.col(source))
            made.append((value.round().cast(kind) if kind == pl.Int64 else value).alias(shown))
    return frame.sort("ts").select(made)
