"""Answers of /api/v1/export to rows, without touching a sample in Python.

A fleet's five minutes are tens of millions of samples, and each series repeats the times of all others. So the text of the times is parsed
once for each that differs, and values go to their rows block by block where a series has the very times of its `row`;
only what has other times (a metric that was absent now and then) is joined sample by sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from fleet.store.columns import Table
from fleet.store.victoria_rows import NAME, ROW, TEXTS, metric

_TIMES: Final = b'"timestamps":'
_LABELS: Final = ("entity", "pid", *TEXTS)
_LINE: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "metric": pl.Struct(dict.fromkeys((NAME, *_LABELS), pl.String)),
    "values": pl.List(pl.Float64),
    "times": pl.Int64,
}
_BLOCKS: Final[dict[str, pl.DataType | type[pl.DataType]]] = {
    "metric": pl.String,
    "entity": pl.Int64,
    "pid": pl.Int64,
    **dict.fromkeys(TEXTS, pl.String),
    "values": pl.List(pl.Float64),
    "times": pl.Int64,
}
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Export:
    """Blocks of series, and the times (ms) that `times` of a block numbers."""

    blocks: pl.DataFrame
    times: Sequence[Ints]


def exported(body: bytes) -> Export:
    """The lines of an export."""
    numbers: dict[bytes, int] = {}
    lines = []
    for line in body.splitlines():
        head, found, told = line.rpartition(_TIMES)
        if found:
            lines.append(b"%b%b%d}" % (head, b'"times":', numbers.setdefault(told[:-1], len(numbers))))
    if not lines:
        return Export(pl.DataFrame(schema=_BLOCKS), [])
    blocks = pl.read_ndjson(b"\n".join(lines), schema=_LINE).unnest("metric").rename({NAME: "metric"})
    texts = [
        pl.when(pl.col(name).str.starts_with("\\")).then(pl.col(name).str.slice(1)).otherwise(pl.col(name)).alias(name)
        for name in TEXTS
    ]
    blocks = blocks.with_columns(pl.col("entity", "pid").cast(pl.Int64, strict=False), *texts).select(*_BLOCKS)
    return Export(blocks, [np.array(msgspec.json.decode(told, type=list[int]), dtype=np.int64) for told in numbers])


def rows(table: Table, told: Export, names: Sequence[str]) -> tuple[pl.DataFrame, pl.Series]:
    """Stored rows of these columns, ordered by key, one a key; and the version of each."""
    keys = list(table.keys[:-1])
    is_row = pl.col("metric") == metric(table.scope, ROW)
    marks = told.blocks.filter(is_row).with_row_index("block")
    lengths = np.array([len(told.times[number]) for number in marks["times"]], dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    base = marks.select(*keys, *(name for name in TEXTS if name in names))[np.repeat(np.arange(len(marks)), lengths)]
    at = np.concatenate([told.times[number] for number in marks["times"]]) if len(marks) else np.empty(0, np.int64)
    base = base.with_columns(pl.Series("at", at), pl.Series("place", np.arange(len(at))))
    numbers = [name for name in names if table.columns[name].is_metric]
    columns = {name: np.full(len(at), np.nan) for name in numbers}
    wanted = {metric(table.scope, name): name for name in numbers}
    values = told.blocks.filter(pl.col("metric").is_in(list(wanted))).drop(TEXTS)
    aligned = values.join(marks.select(*keys, "times", "block"), on=[*keys, "times"], nulls_equal=True)
    for part in aligned.partition_by("metric"):
        column = columns[wanted[part["metric"][0]]]
        lengths = part["values"].list.len().to_numpy().astype(np.int64)
        first = starts[part["block"].to_numpy()] - np.concatenate(([0], np.cumsum(lengths)[:-1]))
        column[np.repeat(first, lengths) + np.arange(lengths.sum())] = part["values"].explode().to_numpy()
    others = values.join(marks, on=[*keys, "times"], how="anti", nulls_equal=True)
    for part in _samples(told, others).join(base, on=[*keys, "at"], nulls_equal=True).partition_by("metric"):
        columns[wanted[part["metric"][0]]][part["place"].to_numpy()] = part["value"].to_numpy()
    whole = base.with_columns(pl.Series(name, column, nan_to_null=True) for name, column in columns.items())
    whole = _newest(whole.drop("place").with_columns(ts=pl.col("at") // 1000), keys)
    return whole.select(table.columns[name].packing() for name in names), whole["at"] % 1000


def _samples(told: Export, blocks: pl.DataFrame) -> pl.DataFrame:
    """The samples of blocks one by one, as `metric`, keys, `at` and `value`."""
    times = pl.Series("at", [told.times[number] for number in blocks["times"]], dtype=pl.List(pl.Int64))
    return blocks.drop("times").rename({"values": "value"}).with_columns(times).explode("value", "at")


def _newest(whole: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Of each second the highest version, ordered by key; the same sample twice, from two writers, is one."""
    whole = whole.sort(*keys, "at", maintain_order=True)
    again = pl.all_horizontal(pl.col(key) == pl.col(key).shift(1) for key in (*keys, "at")).fill_null(False)
    if whole.select(again.any()).item():
        whole = whole.group_by(*keys, "at", maintain_order=True).agg(pl.all().drop_nulls().first())
    return whole.unique([*keys, "ts"], keep="last", maintain_order=True)
