"""Buckets that a Prometheus makes itself, for spans of which the scrapes would be too many to send.

A bucket in which something cannot be told (DCGM's "no value", a share that may be a percentage) is absent as a whole. Of a
split GPU no server can do it, for its lowest and highest are those of sums over its instances: those are made from rows.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import polars as pl

from fleet.store import prometheus_cells, promql
from fleet.store.columns import Table
from fleet.store.endpoint import Endpoint
from fleet.store.prometheus_cells import Floats, Habits

FINE_S: Final = 60
"""Between two looks at when a series was scraped last: of two that follow each other the later one is scraped for longer than that."""
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

    def ask(query: str, field: str) -> list[promql.Result]:
        either = [promql.joined(f'{label}="{uuid.partition(":")[0]}"', selector) for label in ("UUID", "uuid")]
        joined = " or ".join(query.replace("$", f"{field}{{{matchers}}}") for matchers in either)
        found = promql.over(read, joined, first + step_s - LAST_S, last + step_s - LAST_S, step_s)
        for one in found:
            one.metric["__name__"] = field  # which a function over a range loses
        return found

    parts: dict[str, list[pl.DataFrame]] = {what: [] for what in ("max", "min", "avg", "last")}
    for field in fields:
        found = {what: ask(f"{what}_over_time($[{step_s}s])", field) for what in ("max", "min", "avg", "count", "last")}
        if len(found["max"]) > 1:  # several series: which of them is the newest?
            found["at"] = ask(f"max_over_time(timestamp($)[{step_s}s:{min(step_s, FINE_S)}s])", field)
        prometheus_cells.readings(found["max"], habits)  # scrapes as they are teach habits
        for what, part in _of_field(found, _Learnt(habits)).items():
            parts[what].append(part)

    def wide(what: str) -> pl.DataFrame:
        known = pl.concat(parts[what] or [pl.DataFrame(schema=prometheus_cells.SCHEMA)]).unique(
            ["uuid", "metric", "at"], keep="first", maintain_order=True
        )
        told = prometheus_cells.rows(known, {uuid: 0})
        lacking = [pl.lit(None, pl.Float64).alias(name) for name in names if name not in told.columns]
        return told.with_columns(pl.col("ts") + 1 - step_s, *lacking).select("ts", *names)

    frame = wide("max").rename({name: f"{name}_max" for name in names})
    for what in ("min", "avg", "last"):
        frame = frame.join(wide(what).rename({name: f"{name}:{what}" for name in names}), on="ts", how="left")
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


def _labels(one: promql.Result) -> str:
    return repr(sorted(one.metric.items()))


def _of_field(told: Mapping[str, list[promql.Result]], habits: Habits) -> dict[str, pl.DataFrame]:
    """The readings of one field, a row a bucket, of all its series: a GPU has one for each exporter, and for each pod that had it."""
    numbers = [
        {"series": _labels(one), "at": round(at * 1000), "weight": float(text)}
        for one in told["count"]
        for at, text in one.values
    ]
    newest = [
        {"series": _labels(one), "at": round(at * 1000), "newest": float(text)}
        for one in told.get("at", ())
        for at, text in one.values
    ]
    weights = pl.DataFrame(numbers, schema={"series": pl.String, "at": pl.Int64, "weight": pl.Float64})
    ends = pl.DataFrame(newest, schema={"series": pl.String, "at": pl.Int64, "newest": pl.Float64})
    value, weight = pl.col("value"), pl.col("weight")
    how = {"max": value.max(), "min": value.min(), "avg": (value * weight).sum() / weight.sum(), "last": value.last()}
    made: dict[str, pl.DataFrame] = {}
    for what, joined in how.items():
        each = [prometheus_cells.readings([one], habits).with_columns(pl.lit(_labels(one)).alias("series")) for one in told[what]]
        found = pl.concat(each) if each else pl.DataFrame(schema={**prometheus_cells.SCHEMA, "series": pl.String})
        found = found.join(weights, on=["series", "at"], how="left", maintain_order="left")
        found = found.join(ends, on=["series", "at"], how="left", maintain_order="left").sort("newest", maintain_order=True)
        known = pl.when(value.is_not_null().all()).then(joined).alias("value")
        made[what] = found.group_by("uuid", "metric", "at", maintain_order=True).agg(known)
    return made
