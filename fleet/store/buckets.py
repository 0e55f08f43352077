"""Rows and roll-ups to the answer of `series`, the same for every engine."""

from collections.abc import Callable, Collection, Sequence

import polars as pl

from fleet.store import rollup
from fleet.store.columns import Column, Table
from fleet.store.layout import DAY_S
from fleet.store.series import CODES, StoreError


def check(table: Table, metrics: Collection[str], step_s: int) -> list[str]:
    """The metrics asked for, in the table's order; StoreError when one cannot be put in buckets."""
    if step_s < 1:
        raise StoreError(f"A step of {step_s} s makes no buckets; use 1 or more.")
    names = table.names(metrics)[len(table.keys) :]
    if text := [name for name in names if name in table.texts]:
        raise StoreError(f"{', '.join(text)} is text and has no mean.")
    return names


def buckets(table: Table, rows: pl.DataFrame, metrics: Sequence[str], step_s: int, *, full: bool = False) -> pl.DataFrame:
    """`Series.series` of one entity's rows, ordered by key and one a key, in the registry's units."""
    return answer(table, rollup.roll(table, rows, metrics, step_s, p95=full), metrics, full=full)


def answer(
    table: Table, rolled: pl.DataFrame, metrics: Sequence[str], *, full: bool = False, of_all: bool = False
) -> pl.DataFrame:
    """`Series.series` of one entity's roll-ups in the registry's units, ordered by key; `of_all`: of many, with their keys."""
    if len(table.keys) > 2 and not of_all:  # processes: each is rolled up by itself, and together they are one
        rolled = rollup.merge(table, rolled.sort("ts", maintain_order=True), metrics, 1, apart=False)
    made: list[pl.Expr] = [pl.col(key).cast(pl.Int64) for key in (table.keys if of_all else ("ts",))]
    for column in (table.columns[name] for name in metrics):
        made += _shown(column)
        made += _shown_full(column) if full else []
    return rolled.select(made)


def _shown(column: Column) -> list[pl.Expr]:
    name = column.name
    return [
        pl.col(name) if column.rolls == "mean" else pl.col(name).cast(column.read),
        pl.col(f"{name}:min").cast(column.read).alias(f"{name}_min"),
        pl.col(f"{name}:max").cast(column.read).alias(f"{name}_max"),
    ]


def _shown_full(column: Column) -> list[pl.Expr]:
    name = column.name
    made = [pl.col(f"{name}:n").cast(pl.Int64).alias(f"{name}_n")]
    if column.rolls == "mean":
        made.append(pl.col(f"{name}:p95").alias(f"{name}_p95"))
    elif column.rolls == "counter":
        made.append(pl.col(f"{name}:grown").alias(f"{name}_grown"))
    else:
        shares = pl.concat_list(f"{name}:share{code}" for code in range(CODES)).list.to_array(CODES)
        made.append(pl.when(pl.col(f"{name}:n") > 0).then(shares).alias(f"{name}_shares"))
    return made


def by_days(start: int, end: int, step_s: int, made: Callable[[int, int], pl.DataFrame]) -> pl.DataFrame:
    """The buckets from `start` up to `end`, `made` of a day's rows at a time, cut where a bucket ends: all at once may not fit into memory."""
    parts: list[pl.DataFrame] = []
    whole = max(step_s, DAY_S // step_s * step_s)
    while start < end or not parts:
        until = min(end, (start // whole + 1) * whole)
        parts.append(made(start, until))
        start = max(until, start + 1)
    return pl.concat(parts)
