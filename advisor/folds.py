"""Partials: what a stretch of telemetry says of each GPU, host, process and engine, in numbers that merge.

A minute is folded once, and five minutes are merged as often as somebody judges: what is read of thousands of GPUs for the rarer
rules is read once. A column is named `metric|how`; what only merging needs has a third part (`steps_total|growth|first`).
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import polars as pl

How: TypeAlias = Literal["mean", "median", "p99", "max", "min", "last", "growth", "slope", "spread"]
"""growth: of a counter, its falls left out; slope: of the stretches' means, a minute; spread: of the stretches'
medians, 1.4826 times their median distance from their median (a standard deviation's worth)."""
Folds: TypeAlias = Mapping[str, tuple[How, ...]]

SPAN: Final = ("from_t", "until_t", "samples")
"""Columns of every partial: the first and last time of a key, and its rows."""
MINUTE_S: Final = 60.0


def folded(rows: pl.DataFrame, keys: Sequence[str], folds: Folds) -> pl.DataFrame:
    """One row a key of `rows` (in time order of each key): SPAN, and the columns of `folds` with what merging needs.

    A metric that `rows` lacks is null.
    """
    have = set(rows.columns)
    known = {metric: hows for metric, hows in folds.items() if metric in have}
    parts = [part for metric, hows in known.items() for how in hows for part in _parts(metric, how)]
    made = rows.group_by(keys, maintain_order=True).agg(
        pl.col("t").min().alias("from_t"), pl.col("t").max().alias("until_t"), pl.len().cast(pl.Int64).alias("samples"), *parts
    )
    missing = [name for metric, hows in folds.items() if metric not in have for how in hows for name in _names(metric, how)]
    return made.with_columns(pl.lit(None, pl.Float64).alias(name) for name in missing)


def merged(parts: Sequence[pl.DataFrame], keys: Sequence[str], folds: Folds) -> pl.DataFrame:
    """`parts`, in time order, as one: a row a key with SPAN and one column `metric|how` a fold."""
    rows = pl.concat([part.with_columns(_part=pl.lit(number)) for number, part in enumerate(parts)], how="vertical_relaxed")
    return (
        rows.sort(*keys, "_part")
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("from_t").min(),
            pl.col("until_t").max(),
            pl.col("samples").sum(),
            *[_merge(metric, how) for metric, hows in folds.items() for how in hows],
        )
    )


def rate(metric: str) -> pl.Expr:
    """Growth a second of a merged counter; null where it was read once only."""
    return pl.when(pl.col("until_t") > pl.col("from_t")).then(pl.col(f"{metric}|growth") / (pl.col("until_t") - pl.col("from_t")))


def _names(metric: str, how: How) -> list[str]:
    name = f"{metric}|{how}"
    match how:
        case "mean" | "slope":
            return [name, f"{name}|n"]
        case "growth":
            return [name, f"{name}|first", f"{name}|last"]
        case _:
            return [name]


def _parts(metric: str, how: How) -> list[pl.Expr]:
    value, names = pl.col(metric).cast(pl.Float64), _names(metric, how)
    match how:
        case "mean" | "slope":
            made = [value.mean(), value.is_not_null().sum().cast(pl.Float64)]
        case "growth":
            told = value.drop_nulls()
            rise = told.diff()
            made = [pl.when(told.len() > 0).then(rise.filter(rise > 0).sum()), told.first(), told.last()]
        case "median" | "spread":
            made = [value.median()]
        case "p99":
            made = [value.quantile(0.99)]
        case "max":
            made = [value.max()]
        case "min":
            made = [value.min()]
        case "last":
            made = [value.drop_nulls().last()]
    return [expr.alias(name) for expr, name in zip(made, names, strict=True)]


def _merge(metric: str, how: How) -> pl.Expr:
    names = _names(metric, how)
    value = pl.col(names[0])
    made: pl.Expr
    match how:
        case "mean":
            weight = pl.col(names[1])
            whole = weight.filter(value.is_not_null()).sum()
            made = pl.when(whole > 0).then((value * weight).sum() / whole)
        case "slope":
            told = value.drop_nulls()
            made = pl.when(told.len() >= 2).then((told.last() - told.first()) / (told.len() - 1))
        case "growth":
            step = pl.col(names[1]).drop_nulls() - pl.col(names[2]).drop_nulls().shift(1)
            made = pl.when(value.is_not_null().any()).then(value.sum() + step.filter(step > 0).sum())
        case "median":
            made = value.median()
        case "spread":
            made = 1.4826 * (value - value.median()).abs().median()
        case "p99" | "max":
            made = value.max()
        case "min":
            made = value.min()
        case "last":
            made = value.drop_nulls().last()
    return made.alias(f"{metric}|{how}")
