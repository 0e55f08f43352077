"""How each column lies on disk and comes back: keys, narrow types, fixed scales.

A number is kept as a whole number of its unit's smallest step, in the narrowest integer that holds the metric's
range: ratios in steps of 1/10,000, power and energy in thousandths. A unit that is not in the table below is kept
as Float64. Scales are part of the format: files that exist were written with them, so a scale never changes.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, get_args

import polars as pl

from fleet.store.series import StoreError
from wire.metrics import METRICS, Metric, Scope

KEYS: Final[dict[Scope, tuple[str, ...]]] = {
    "gpu": ("entity", "ts"),
    "host": ("entity", "ts"),
    "process": ("entity", "pid", "ts"),
    "engine": ("entity", "ts"),
}
MAX_KEY: Final = (1 << 32) - 1

_STEPS: Final = {"ratio": 10_000, "percent": 100, "cores": 100, "celsius": 10, "megahertz": 10, "watts": 1000, "joules": 1000}
_WHOLE: Final = ("bytes", "errors", "rows", "events", "code", "lanes", "bits", "flag", "threads", "processes")
_INTEGERS: Final = (
    (pl.UInt8, 0, 0xFF),
    (pl.UInt16, 0, 0xFFFF),
    (pl.UInt32, 0, 0xFFFF_FFFF),
    (pl.Int16, -0x8000, 0x7FFF),
    (pl.Int32, -0x8000_0000, 0x7FFF_FFFF),
)
_ROLLS: Final[dict[str, Literal["mean", "counter", "code"]]] = {"counter": "counter", "state": "code", "bitmask": "code"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `stored` on disk in units of 1/`steps`, `read` for callers."""

    name: str
    stored: type[pl.DataType]
    read: type[pl.DataType]
    steps: int = 1
    is_metric: bool = True
    rolls: Literal["mean", "counter", "code"] = "mean"  # of counters and codes a bucket's value is its last, never a mean
    is_bits: bool = False  # a code of which each bit is one of its own

    def packing(self) -> pl.Expr:
        """The stored form of a column that a caller gave; what does not fit is null."""
        value = pl.col(self.name)
        if self.stored == pl.String:
            return value.cast(pl.String)
        if self.stored in (pl.Float32, pl.Float64):
            value = value.cast(self.stored, strict=False)
            return pl.when(value.is_finite()).then(value)
        if self.steps != 1:
            value = value.cast(pl.Float64, strict=False) * self.steps
        return value.round().cast(self.stored, strict=False)

    @property
    def keeps_last(self) -> bool:
        """True where a bucket's value is its last."""
        return self.rolls != "mean"

    def unpacking(self) -> pl.Expr:
        """The registry's unit back from the stored form."""
        value = pl.col(self.name).cast(self.read)
        # Polars divides by multiplying; rounding makes 1234 steps the very 0.1234 that was written.
        return (value / self.steps).round(len(str(self.steps)) - 1) if self.steps != 1 else value


def _column(metric: Metric) -> Column:
    rolls = _ROLLS.get(metric.kind, "mean")
    bits = metric.kind == "bitmask"
    read = pl.Int64 if metric.is_integer else pl.Float64
    steps = _STEPS.get(metric.unit, 1)
    if metric.unit == "bytes_per_second":
        return Column(metric.name, pl.Float32, read, rolls=rolls, is_bits=bits)
    if metric.unit in _STEPS or metric.unit in _WHOLE:
        return Column(metric.name, _narrowest(metric.low * steps, metric.high * steps), read, steps, rolls=rolls, is_bits=bits)
    return Column(metric.name, pl.Float64, read, rolls=rolls, is_bits=bits)


def _narrowest(low: float, high: float) -> type[pl.DataType]:
    return next((kind for kind, least, most in _INTEGERS if least <= low and high <= most), pl.Int64)


class Table:
    """The columns of one scope."""

    def __init__(self, scope: Scope, metrics: Iterable[Metric] = METRICS) -> None:
        self.scope = scope
        self.keys = KEYS[scope]
        columns = [Column(key, pl.UInt32, pl.Int64, is_metric=False) for key in self.keys]
        if scope == "process":
            columns += [Column(name, pl.String, pl.String, is_metric=False) for name in ("name", "user")]
            columns.append(Column("gpu_mem_bytes", pl.Int64, pl.Int64))
        columns += [_column(metric) for metric in metrics if metric.scope == scope and metric.kept]
        self.columns = {column.name: column for column in columns}

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The columns that are no numbers."""
        return tuple(column.name for column in self.columns.values() if column.stored == pl.String)

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The columns of which roll-ups are made."""
        return tuple(name for name in self.columns if name not in self.keys and name not in self.texts)

    @cached_property
    def stored(self) -> dict[str, type[pl.DataType]]:
        """Names and types on disk."""
        return {column.name: column.stored for column in self.columns.values()}

    def names(self, metrics: Collection[str] | None) -> list[str]:
        """The keys, then the columns named (None: all) in the table's order; StoreError for one that is not there."""
        if metrics is None:
            return list(self.columns)
        if unknown := sorted(set(metrics) - set(self.columns)):
            raise StoreError(f"No metric {', '.join(unknown)} in scope {self.scope}; wire/metrics.py lists what there is.")
        return [*self.keys, *(name for name in self.columns if name in metrics and name not in self.keys)]

    def empty(self, names: Iterable[str]) -> pl.DataFrame:
        """No rows, the right columns and types."""
        return pl.DataFrame(schema={name: self.columns[name].read for name in names})

    def pack(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
        """A caller's rows as they are stored, ordered by key, one a key; and how many values did not fit.

        A metric without any value is left out: an absent column reads as nulls. StoreError when the frame has
        unknown columns, lacks a key or has one that is no whole number from 0 to 2^32 - 1.
        """
        if unknown := sorted(set(frame.columns) - set(self.columns)):
            raise StoreError(f"Scope {self.scope} has no column {', '.join(unknown)}; nothing was stored.")
        if missing := [key for key in self.keys if key not in frame.columns]:
            raise StoreError(f"Rows of scope {self.scope} need the key {', '.join(missing)}; nothing was stored.")
        try:
            # A column that nobody gave a value has no type, which Polars can neither round nor multiply.
            typed = frame.with_columns(pl.col(pl.Null).cast(pl.Float64))
            packed = typed.select(self.columns[name].packing() for name in self.columns if name in frame.columns)
        except pl.exceptions.PolarsError as error:
            raise StoreError(f"Rows of scope {self.scope} cannot be stored: {error}.") from error
        given = {key: frame[key] for key in self.keys}
        if any(packed[key].null_count() or not given[key].dtype.is_integer() for key in self.keys if len(frame)):
            raise StoreError(f"Keys {', '.join(self.keys)} must be whole numbers from 0 to {MAX_KEY}; nothing was stored.")
        misfits = sum(packed[name].null_count() - frame[name].null_count() for name in packed.columns)
        filled = [
            column.name for column in packed if not self.columns[column.name].is_metric or column.null_count() < len(packed)
        ]
        return self.newest(packed.select(filled)), misfits

    def newest(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows ordered by key; of rows with the same key the last one counts."""
        rows = rows.sort(_order(rows, self.keys), maintain_order=True).with_columns(pl.col(self.keys[0]).set_sorted())
        again = pl.all_horizontal(pl.col(key) == pl.col(key).shift(-1) for key in self.keys).fill_null(False)
        repeated = rows.select(again).to_series()
        return rows.filter(~repeated) if repeated.any() else rows

    def unpack(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Stored rows in the registry's units and types."""
        return rows.select(self.columns[name].unpacking() for name in rows.columns)


def _order(rows: pl.DataFrame, keys: Sequence[str]) -> list[pl.Expr]:
    """What to sort the rows by: the keys in one number where they fit, which is faster."""
    spans = rows.select(pl.col(key).max().cast(pl.Int64) - pl.col(key).min() + 1 for key in keys).row(0)
    if None in spans or math.prod(spans) >= 1 << 63:
        return [pl.col(key) for key in keys]
    one: pl.Expr = pl.lit(0, pl.Int64)
    for key, span in zip(keys, spans, strict=True):
        one = one * span + (pl.col(key).cast(pl.Int64) - pl.col(key).min())
    return [one]


def tables(metrics: Iterable[Metric] = METRICS) -> dict[Scope, Table]:
    """A table for each scope."""
    metrics = tuple(metrics)
    return {scope: Table(scope, metrics) for scope in scopes()}


def scopes() -> Iterator[Scope]:
    """The scopes, in the registry's order."""
    yield from get_args(Scope)
