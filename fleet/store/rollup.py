"""Rows to roll-ups of equal length, and roll-ups to longer ones, the same for every engine.

A roll-up row has the scope's key with `ts` as the first second of its bucket, `n` (the rows in it), the last text of a process, and
for each metric `name` (mean; counters, states and bitmasks: last) and the PARTS of its kind as `name:part`. Numbers are in the
rows' own unit, means and percentiles as Float64. A metric that no row has is null in all its parts, and 0 in `name:n`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import polars as pl

from fleet.store.columns import Column, Table
from fleet.store.series import CODES

PARTS: Final = {
    "mean": ("min", "max", "n", "p95"),
    "counter": ("min", "max", "n", "first", "grown"),
    "code": ("min", "max", "n", *(f"share{code}" for code in range(CODES))),
}
_GROUP: Final = "group:"


def roll(table: Table, rows: pl.DataFrame, metrics: Collection[str], step_s: int, *, p95: bool = True) -> pl.DataFrame:
    """Rows, ordered by key and one a key, as roll-ups in the order of their key; `p95` False leaves that part null."""
    columns = [table.columns[name] for name in metrics]
    keys = table.keys[:-1]
    rows = _grouped(keys, rows, step_s)
    grown = [_steps_up(column).alias(f"{column.name}:grown") for column in columns if column.rolls == "counter"]
    parts: list[pl.Expr] = [pl.len().cast(pl.UInt32).alias("n")]
    codes: dict[str, list[int]] = {}
    for column in columns:
        value, name = pl.col(column.name), column.name
        parts += [value.min().alias(f"{name}:min"), value.max().alias(f"{name}:max"), value.count().alias(f"{name}:n")]
        if column.rolls == "mean":
            middle = value.quantile(0.95, "linear") if p95 else pl.lit(None)
            parts += [value.mean().cast(pl.Float64), middle.cast(pl.Float64).alias(f"{name}:p95")]
        else:
            parts.append(value.drop_nulls().last())
        if column.rolls == "counter":
            parts += [value.drop_nulls().first().alias(f"{name}:first"), pl.col(f"{name}:grown").sum()]
        elif column.rolls == "code":
            codes[name] = _seen(column, rows[name])
            parts += [_has(column, code).mean().alias(f"{name}:share{code}") for code in codes[name]]
    rolled = (
        rows.with_columns(grown).group_by(_GROUP, maintain_order=True).agg(*_keys(keys, step_s), *_texts(table, rows), *parts)
    )
    return _whole(table, rolled.drop(_GROUP), columns, codes)


def merge(table: Table, rolled: pl.DataFrame, metrics: Collection[str], step_s: int, *, apart: bool = True) -> pl.DataFrame:
    """Roll-ups, ordered by key, as longer ones; `p95` is null where several with a value become one.

    `apart` False: the roll-ups are in order of time, and all things of one time are one, whose counters grow by what each has grown.
    """
    columns = [table.columns[name] for name in metrics]
    keys = table.keys[:-1] if apart else ()
    rolled = _grouped(keys, rolled, step_s)
    between = [
        (_steps_between(column) if apart else pl.lit(None, pl.Float64)).alias(f"{column.name}:between")
        for column in columns
        if column.rolls == "counter"
    ]
    parts: list[pl.Expr] = [pl.col("n").sum()]
    for column in columns:
        value, name = pl.col(column.name), column.name
        count = pl.col(f"{name}:n")
        parts += [pl.col(f"{name}:min").min(), pl.col(f"{name}:max").max(), count.sum()]
        if column.rolls == "mean":
            single = pl.when(value.count() == 1).then(pl.col(f"{name}:p95").drop_nulls().first())
            parts += [(value * count).sum() / count.sum(), single.alias(f"{name}:p95")]
        else:
            parts.append(value.drop_nulls().last())
        if column.rolls == "counter":
            growth = pl.col(f"{name}:grown").sum() + pl.col(f"{name}:between").sum()
            parts += [pl.col(f"{name}:first").drop_nulls().first(), growth.alias(f"{name}:grown")]
        elif column.rolls == "code":
            shares = (f"{name}:share{code}" for code in range(CODES))
            parts += [((pl.col(share) * count).sum() / count.sum()).alias(share) for share in shares]
    grouped = rolled.with_columns(between).group_by(_GROUP, maintain_order=True)
    merged = grouped.agg(*_keys(keys, step_s), *_texts(table, rolled), *parts)
    return _whole(table, merged.drop(_GROUP), columns, {name: list(range(CODES)) for name in metrics})


def percentiles(table: Table, rows: pl.DataFrame, metrics: Collection[str], step_s: int) -> list[pl.Series]:
    """The `p95` parts of `roll`, a column a metric that has them."""
    middles = [
        pl.col(name).quantile(0.95, "linear").cast(pl.Float64).alias(f"{name}:p95")
        for name in metrics
        if table.columns[name].rolls == "mean"
    ]
    grouped = _grouped(table.keys[:-1], rows, step_s).group_by(_GROUP, maintain_order=True)
    return grouped.agg(middles).drop(_GROUP).get_columns()


def names(table: Table, metrics: Collection[str]) -> Iterator[str]:
    """The columns of roll-ups of these metrics, keys and text left out."""
    yield "n"
    for name in metrics:
        yield name
        yield from (f"{name}:{part}" for part in PARTS[table.columns[name].rolls])


def _grouped(keys: Sequence[str], rows: pl.DataFrame, step_s: int) -> pl.DataFrame:
    """The rows with the number of their bucket, rising."""
    bucket = pl.col("ts") // step_s
    new = pl.any_horizontal(bucket != bucket.shift(1), *(pl.col(key) != pl.col(key).shift(1) for key in keys))
    return rows.with_columns(new.fill_null(False).cum_sum().set_sorted().alias(_GROUP))


def _keys(keys: Sequence[str], step_s: int) -> list[pl.Expr]:
    return [*(pl.col(key).first() for key in keys), (pl.col("ts").first() // step_s) * step_s]


def _texts(table: Table, rows: pl.DataFrame) -> list[pl.Expr]:
    return [pl.col(name).drop_nulls().last() for name in table.texts if name in rows.columns]


def _before(value: pl.Expr, known: pl.Expr) -> pl.Expr:
    """The newest known value before this row within the same bucket."""
    group = pl.when(known.is_not_null()).then(pl.col(_GROUP)).forward_fill().shift(1)
    return pl.when(group == pl.col(_GROUP)).then(value.forward_fill().shift(1))


def _steps_up(column: Column) -> pl.Expr:
    value = pl.col(column.name).cast(pl.Float64)
    return _growth(_before(value, value), value)


def _steps_between(column: Column) -> pl.Expr:
    first, last = pl.col(f"{column.name}:first").cast(pl.Float64), pl.col(column.name).cast(pl.Float64)
    return _growth(_before(last, last), first)


def _growth(before: pl.Expr, after: pl.Expr) -> pl.Expr:
    return pl.when(after >= before).then(after - before).when(before.is_not_null()).then(after)


def _seen(column: Column, values: pl.Series) -> list[int]:
    """The codes, or bits, that occur."""
    known: Sequence[int] = values.drop_nulls().unique().to_list()
    if column.is_bits:
        return [bit for bit in range(CODES) if any(value >> bit & 1 for value in known)]
    return sorted(code for code in known if 0 <= code < CODES)


def _has(column: Column, code: int) -> pl.Expr:
    value = pl.col(column.name)
    return (value // (1 << code)) % 2 == 1 if column.is_bits else value == code


def _whole(table: Table, rolled: pl.DataFrame, columns: Sequence[Column], codes: dict[str, list[int]]) -> pl.DataFrame:
    """All columns, in order and typed; shares that nobody had are 0, and growth of a counter without a value is null."""
    made: list[pl.Expr] = []
    for column in columns:
        name = column.name
        there = pl.col(f"{name}:n") > 0
        made.append(pl.col(f"{name}:n").cast(pl.UInt32))
        if column.rolls == "counter":
            made.append(pl.when(there).then(pl.col(f"{name}:grown")).cast(pl.Float64))
        elif column.rolls == "code":
            for code in range(CODES):
                share = f"{name}:share{code}"
                value = pl.col(share) if code in codes[name] else pl.lit(0.0)
                made.append(pl.when(there).then(value).cast(pl.Float64).alias(share))
        else:
            made.append(pl.when(there).then(pl.col(name)).cast(pl.Float64))
    order = [*(key for key in table.keys if key in rolled.columns), *(name for name in table.texts if name in rolled.columns)]
    return rolled.with_columns(made).select(*order, *names(table, [column.name for column in columns]))
