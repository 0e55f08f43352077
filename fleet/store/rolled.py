"""How roll-ups lie on disk and come back.

A part that follows from the others takes no column, file by file: the highest and the lowest of a metric that stood still, the
growth of a counter that never fell, the count of samples where all have the metric, the shares of a state that never changed.
"""

from collections.abc import Collection, Sequence
from typing import Final

import polars as pl

from fleet.store import rollup
from fleet.store.columns import Column, Table
from fleet.store.layout import Resolution
from fleet.store.series import CODES

P95_FROM_S: Final = 10
"""Of ten samples the 95th percentile is next to the highest: roll-ups of more than ten seconds alone keep it."""
_SHARE: Final = 10_000
_SHARES: Final = tuple(f"share{code}" for code in range(CODES))


class RolledTable(Table):
    """The columns of one scope's roll-ups of `of`; `raw` has those of its rows."""

    def __init__(self, raw: Table, of: Resolution) -> None:
        self.has_p95 = of.step_s > P95_FROM_S
        self.scope = raw.scope
        self.keys = raw.keys
        self.raw = raw
        columns = [raw.columns[name] for name in (*raw.keys, *raw.texts)]
        columns.append(Column("n", pl.UInt32, pl.Int64))
        for name in raw.metrics:
            columns += _columns(raw.columns[name])
        self.columns = {column.name: column for column in columns}

    def newest(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows ordered by key; of rows with the same key the one made of most samples counts, of equals the last.

        What comes late after the raw rows are gone may be the lesser part of its bucket: it never hides the greater.
        """
        return super().newest(rows.sort("n", maintain_order=True)) if rows[self.keys[-1]].is_duplicated().any() else rows

    def wanted(self, metrics: Collection[str]) -> list[str]:
        """The columns to read for these metrics."""
        return [*self.keys, *rollup.names(self.raw, metrics)]

    def store(self, rolled: pl.DataFrame) -> pl.DataFrame:
        """Roll-ups of stored rows as they are stored."""
        made: list[pl.Expr] = []
        for name in rolled.columns:
            value, kind = pl.col(name), self.columns[name].stored
            if name.rpartition(":")[2] in _SHARES:
                value = value * _SHARE
            if kind in (pl.String, pl.Float32, pl.Float64):
                made.append(value.cast(kind))
            else:
                made.append((value.round() if rolled[name].dtype.is_float() else value).cast(kind, strict=False))
        return self.lean(rolled.select(made))

    def lean(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Stored roll-ups, but for the columns that `whole` makes again."""
        kept = [name for name in (*self.keys, *self.raw.texts, "n") if name in rows.columns]
        for name in self.raw.metrics:
            if name not in rows.columns or rows[name].null_count() == len(rows):
                continue
            kept.append(name)
            told = [part for part in rollup.PARTS[self.raw.columns[name].rolls] if f"{name}:{part}" in rows.columns]
            follows = _follows(self, self.raw.columns[name])
            made = rows.select(follows[part].cast(self._type(name, part), strict=False).alias(part) for part in told)
            news = [part for part in told if not rows[f"{name}:{part}"].equals(made[part])]
            if any(part in _SHARES for part in news):  # all of them or none: what a row has no share of is 0 then
                news = [part for part in told if part in news or (part in _SHARES and rows[f"{name}:{part}"].max())]
            kept += [f"{name}:{part}" for part in news if part not in _SHARES or rows[f"{name}:{part}"].max()]
        return rows.select(kept)

    def _type(self, name: str, part: str) -> type[pl.DataType]:
        return self.columns[f"{name}:{part}"].stored

    def told(self, columns: Collection[str]) -> tuple[list[str], list[str]]:
        """What to read in order to merge files with these columns, and the metrics that `whole` has to complete in it."""
        read = [name for name in (*self.keys, *self.raw.texts, "n") if name in columns]
        metrics = []
        for name in self.raw.metrics:
            parts = [part for part in rollup.PARTS[self.raw.columns[name].rolls] if f"{name}:{part}" in columns]
            if name in columns:
                read.append(name)
            if parts:
                shares = any(part in _SHARES for part in parts)
                metrics.append(name)
                read += [f"{name}:{part}" for part in rollup.PARTS[self.raw.columns[name].rolls] if shares or part not in _SHARES]
        return read, metrics

    def whole(self, rows: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
        """Stored roll-ups, as read, with every part of the metrics that has a column in `rows`."""
        for parts in _ORDER:
            made: list[pl.Expr] = []
            for name in metrics:
                follows = _follows(self, self.raw.columns[name])
                there = [part for part in follows if f"{name}:{part}" in rows.columns]
                made += [
                    pl.coalesce(pl.col(f"{name}:{part}"), follows[part]).cast(self._type(name, part)).alias(f"{name}:{part}")
                    for part in there
                    if part in parts
                ]
                if parts is _ORDER[0] and (shares := [part for part in there if part in _SHARES]):
                    told = pl.any_horizontal(pl.col(f"{name}:{part}").is_not_null() for part in shares)
                    for part in shares:
                        share = pl.col(f"{name}:{part}").fill_null(0)
                        made.append(pl.when(told).then(share).otherwise(follows[part]).cast(pl.UInt16).alias(f"{name}:{part}"))
            rows = rows.with_columns(made)
        return rows

    def made(self, rows: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
        """Stored roll-ups as they were before `store` (rollup.py), still in the units of stored rows."""
        rows, made = self.whole(rows, metrics), []
        for name in rows.columns:
            metric, _, part = name.partition(":")
            if part in _SHARES:
                made.append(pl.col(name).cast(pl.Float64) / _SHARE)
            elif part in ("p95", "grown") or (not part and metric in metrics and self.raw.columns[metric].rolls == "mean"):
                made.append(pl.col(name).cast(pl.Float64))
        return rows.with_columns(made)

    def read(self, rows: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
        """Stored roll-ups as those of rows in the registry's units (rollup.py)."""
        rows = self.whole(rows, metrics)
        made: list[pl.Expr] = []
        for name in rows.columns:
            if name.rpartition(":")[2] in _SHARES:
                made.append(pl.col(name).cast(pl.Float64) / _SHARE)
            else:
                made.append(self.columns[name].unpacking())
        return rows.select(made)


_ORDER: Final = (("max", "n", "p95", "min"), ("first",), ("grown",))


def _follows(table: RolledTable, column: Column) -> dict[str, pl.Expr]:
    """What each part is where it has no column; in the order of _ORDER a part is made of those before it."""
    name = column.name
    value = pl.col(name)
    made = {"min": value, "max": value, "n": pl.when(value.is_not_null()).then(pl.col("n")).otherwise(0)}
    if column.rolls == "mean":
        whole = not table.columns[name].stored.is_integer() and column.stored.is_integer()
        made["min"] = made["max"] = value.round() if whole else value
    if column.rolls == "counter":
        first = pl.col(f"{name}:first")
        grown_type = table.columns[f"{name}:grown"].stored
        made |= {"first": pl.col(f"{name}:min"), "grown": value.cast(grown_type) - first.cast(grown_type)}
    elif column.rolls == "code":
        for code in range(CODES):
            has = (value.cast(pl.Int64) // (1 << code)) % 2 == 1 if column.is_bits else value == code
            made[f"share{code}"] = pl.when(value.is_not_null()).then(has.cast(pl.UInt16) * _SHARE)
    else:
        made["p95"] = value if table.has_p95 else pl.lit(None)
    return made


def _columns(column: Column) -> list[Column]:
    name, whole, steps = column.name, column.stored.is_integer(), column.steps
    exact = whole and (steps != 1 or column.stored == pl.Int64)  # a mean in the metric's own steps is fine enough
    mean = column.stored if exact or not whole else pl.Float32
    grown = pl.Int64 if whole else pl.Float64
    made = [Column(name, mean, pl.Float64, steps) if column.rolls == "mean" else column]
    for part in rollup.PARTS[column.rolls]:
        stored, read, scale = column.stored, column.read, steps
        if part == "n":
            stored, read, scale = pl.UInt32, pl.Int64, 1
        elif part == "p95":
            stored, read = mean, pl.Float64
        elif part == "grown":
            stored, read = grown, pl.Float64
        elif part in _SHARES:
            stored, read, scale = pl.UInt16, pl.Float64, 1
        made.append(Column(f"{name}:{part}", stored, read, scale))
    return made
