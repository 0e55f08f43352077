"""Rows to buckets of equal length, the same for every engine."""

from collections.abc import Collection

import polars as pl

from fleet.store.columns import Table
from fleet.store.series import StoreError


def check(table: Table, metrics: Collection[str], step_s: int) -> list[str]:
    """The metrics asked for, in the table's order; StoreError when one cannot be put in buckets."""
    if step_s < 1:
        raise StoreError(f"A step of {step_s} s makes no buckets; use 1 or more.")
    names = table.names(metrics)[len(table.keys) :]
    if text := [name for name in names if not table.columns[name].is_metric]:
        raise StoreError(f"{', '.join(text)} is text and has no mean.")
    return names


def buckets(table: Table, rows: pl.DataFrame, metrics: Collection[str], step_s: int) -> pl.DataFrame:
    """`ts` (bucket start, a multiple of `step_s`) and for each metric its value, minimum and maximum.

    `rows` are unpacked. Means are Float64; last values, minima and maxima have the metric's own type.
    """
    spread: list[pl.Expr] = []
    for name in metrics:
        value = pl.col(name)
        middle = value.drop_nulls().last() if table.columns[name].keeps_last else value.mean()
        spread += [middle.alias(name), value.min().alias(f"{name}_min"), value.max().alias(f"{name}_max")]
    return rows.sort("ts", maintain_order=True).group_by((pl.col("ts") // step_s) * step_s, maintain_order=True).agg(spread)
