"""Buckets that VictoriaMetrics makes itself, for spans of which the rows would be too many to send."""

from collections.abc import Sequence
from typing import Final

import polars as pl

from fleet.store import promql
from fleet.store.columns import Table
from fleet.store.endpoint import Endpoint
from fleet.store.victoria_rows import ROW, selectors

LAST_MS: Final = 0.001
"""A rollup looks back from its own time, both counted in whole ms: at the last one of a bucket it sees that bucket alone."""

NEWEST: Final = "max(last_over_time($) if (tlast_over_time($) == on() group_left() max(tlast_over_time($))))"
"""The last sample of all series together: a GPU that got other labels has several, of which not the highest counts."""


def buckets(
    read: Endpoint, fleet: str, table: Table, entity: int, metrics: Sequence[str], start: int, end: int, step_s: int
) -> pl.DataFrame:
    """As Series.series answers. The first and the last bucket are whole, whatever the span asked for."""
    first = start // step_s * step_s
    last = (end - 1) // step_s * step_s

    def ask(template: str, name: str) -> pl.DataFrame:
        (selector,) = selectors(table.scope, fleet, [name], [entity])
        query = template.replace("$", f"{selector}[{step_s}s]")
        found = promql.points(promql.over(read, query, first + step_s - LAST_MS, last + step_s - LAST_MS, step_s))
        return found.select(ts=(pl.col("at") + 1) // 1000 - step_s, value="value")

    frame = ask("sum(count_over_time($))", ROW).select("ts").unique().sort("ts")
    for name in metrics:
        column = table.columns[name]
        mean = NEWEST if column.keeps_last else "sum(sum_over_time($)) / sum(count_over_time($))"
        for what, template in ((name, mean), (f"{name}_min", "min(min_over_time($))"), (f"{name}_max", "max(max_over_time($))")):
            exact = column.keeps_last or what != name
            kind = column.read if exact else pl.Float64
            value = pl.col("value").round().cast(kind) if kind == pl.Int64 else pl.col("value")
            frame = frame.join(ask(template, name).select("ts", value.alias(what)), on="ts", how="left")
    return frame.cast({"ts": pl.Int64})
