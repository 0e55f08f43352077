"""Partials: what a stretch of telemetry says of each GPU, host, process and engine, in numbers that merge.

A minute is folded once, and five minutes are merged as often as somebody judges: what is read of thousands of GPUs for the rarer
rules is read once. A column is named `metric|how`; what only merging needs has a third part (`steps_total|growth|first`).
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import polars as pl

from advisor.samples import ordered

How: TypeAlias = Literal["mean", "median", "p99", "max", "min", "last", "growth", "slope", "spread"]
"""growth: of a counter, its falls left out; slope: of the stretches' means, a minute; spread: of the stretches'
medians, 1.4826 times their median distance from their median (a standard deviation's worth)."""
Folds: TypeAlias = Mapping[str, tuple[How, ...]]

SPAN: Final = ("from_t", "until_t", "samples")
"""Columns of every partial: the first and last time of a key, and its rows."""
MINUTE_S: Final = 60.0


def folded(rows: pl.DataFrame, keys: Sequence[str], folds: Folds) -> pl.DataFrame:
    """One row a key of `rows` (in time order of each key): SPAN, and the columns of `folds` with what merging needs.

    A metric that `rows` lacks, or has no value of, is null.
    """
    have = _told(rows)
    known = {metric: hows for metric, hows in folds.items() if metric in have}
    parts = [part for metric, hows in known.items() for how in hows for part in _parts(metric, how)]
    rises = [
        _rise(keys, pl.col(metric).cast(pl.Float64), pl.col(metric).cast(pl.Float64)).alias(f"{metric}|rise")
        for metric, hows in known.items()
        if "growth" in hows
    ]
    made = (
        ordered(rows, *keys, "t")
        .lazy()
        .with_columns(rises)
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("t").min().alias("from_t"),
            pl.col("t").max().alias("until_t"),
            pl.len().cast(pl.Int64).alias("samples"),
            *parts,
        )
        .collect()
    )
    return _whole(made, keys, [name for metric, hows in folds.items() for how in hows for name in _names(metric, how)])


def merged(parts: Sequence[pl.DataFrame], keys: Sequence[str], folds: Folds) -> pl.DataFrame:
    """`parts`, in time order, as one: a row a key with SPAN and one column `metric|how` a fold."""
    rows = pl.concat([part.with_columns(_part=pl.lit(number)) for number, part in enumerate(parts)], how="vertical_relaxed")
    have = _told(rows)
    asked = [(metric, how) for metric, hows in folds.items() for how in hows]
    known = [(metric, how) for metric, how in asked if f"{metric}|{how}" in have]
    steps = [
        _rise(keys, pl.col(f"{metric}|growth|first"), pl.col(f"{metric}|growth|last")).alias(f"{metric}|rise")
        for metric, how in known
        if how == "growth"
    ]
    made = (
        rows.sort(*keys, "_part")
        .lazy()
        .with_columns(steps)
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("from_t").min(),
            pl.col("until_t").max(),
            pl.col("samples").sum(),
            *[_merge(metric, how) for metric, how in known],
        )
        .collect()
    )
    return _whole(made, keys, [f"{metric}|{how}" for metric, how in asked])


def _whole(made: pl.DataFrame, keys: Sequence[str], names: Sequence[str]) -> pl.DataFrame:
    """`made` with all of `names` in this order, whatever was told: those that it lacks are null."""
    have = frozenset(made.columns)
    columns = [pl.col(name) if name in have else pl.lit(None, pl.Float64).alias(name) for name in names]
    return made.select(*keys, *SPAN, *columns)


def _told(rows: pl.DataFrame) -> frozenset[str]:
    """The columns with any value: of a fleet most of the rarer metrics have none, and each would be folded for every key."""
    return frozenset(column.name for column in rows.get_columns() if column.null_count() < rows.height)


def _rise(keys: Sequence[str], first: pl.Expr, last: pl.Expr) -> pl.Expr:
    """By how much `first` is more than the `last` that was told before of the same key, 0 where it fell; rows lie key by key."""
    run = pl.any_horizontal(pl.col(key) != pl.col(key).shift(1) for key in keys).fill_null(True).cum_sum()
    of = pl.when(last.is_not_null()).then(run).forward_fill().shift(1)
    return pl.when(of == run).then((first - last.forward_fill().shift(1)).clip(0))


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
            made = [pl.when(value.count() > 0).then(pl.col(f"{metric}|rise").sum()), told.first(), told.last()]
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
            weight = pl.col(names[1])  # 0 where there is no value
            whole = weight.sum()
            made = pl.when(whole > 0).then((value * weight).sum() / whole)
        case "slope":
            told = value.drop_nulls()
            made = pl.when(told.len() >= 2).then((told.last() - told.first()) / (told.len() - 1))
        case "growth":
            made = pl.when(value.count() > 0).then(value.sum() + pl.col(f"{metric}|rise").sum())
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
