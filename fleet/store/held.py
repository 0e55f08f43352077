"""Metrics that are read every quarter of a minute: between two readings the last one holds, for HELD_S at most.

Rows hold what was told with them. Readers want to know what is, so clock.py, which all of them read through, fills in.
"""

from collections.abc import Collection

import polars as pl

from wire.metrics import HELD, HELD_S, Scope

__all__ = ["HELD_S", "asked", "fill", "fill_buckets", "fill_newest"]


def asked(scope: Scope, metrics: Collection[str] | None) -> list[str]:
    """Those of the metrics (None: all) that are held."""
    if scope != "gpu":
        return []
    return sorted(HELD if metrics is None else HELD.intersection(metrics))


def fill(rows: pl.DataFrame, names: Collection[str]) -> pl.DataFrame:
    """Rows in order of entity and time, each with what was told of the metrics within HELD_S before."""
    at = pl.col("entity").cast(pl.Int64) * (1 << 32) + pl.col("ts")  # those of two entities are never near each other
    return rows.with_columns(_held(pl.col(name), pl.col(name).is_not_null(), at) for name in names)


def fill_newest(newest: pl.DataFrame, before: pl.DataFrame, names: Collection[str]) -> pl.DataFrame:
    """The newest row of each entity with what was told of the metrics within HELD_S before it; `before` has the rows until then."""
    limits = newest.select("entity", pl.col("ts").alias("newest"))
    within = before.join(limits, on="entity").filter(pl.col("ts").is_between(pl.col("newest") - HELD_S, pl.col("newest")))
    known = within.group_by("entity").agg(pl.col(name).drop_nulls().last().alias(f"{name}:held") for name in names)
    filled = newest.join(known, on="entity", how="left", maintain_order="left")
    return filled.with_columns(pl.coalesce(name, f"{name}:held").alias(name) for name in names).select(newest.columns)


def fill_buckets(buckets: pl.DataFrame, names: Collection[str]) -> pl.DataFrame:
    """Buckets of one entity: one without a reading of a metric has the mean, lowest and highest of the one before, within HELD_S."""
    return buckets.with_columns(
        _held(pl.col(column), pl.col(name).is_not_null(), pl.col("ts"))
        for name in names
        for column in (name, f"{name}_min", f"{name}_max")
    )


def _held(value: pl.Expr, told: pl.Expr, at: pl.Expr) -> pl.Expr:
    """The value that was told within HELD_S before, by `at`."""
    return pl.when(at - pl.when(told).then(at).forward_fill() <= HELD_S).then(value.forward_fill())
