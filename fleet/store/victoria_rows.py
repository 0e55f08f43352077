"""Series of VictoriaMetrics to rows and back: names, labels, which of several versions of a row counts.

A row is one sample of the series `fettle_<scope>_row` and one of `fettle_<scope>_<metric>` for each metric that has a value, all
at the same millisecond of its second: the one that its writer picked, plus how often the row was written anew with another content. Of the samples of
one second those at the highest millisecond that has a row count, so a later row takes the place of an earlier one as a whole.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import polars as pl

from fleet.store import remote_write
from fleet.store.columns import Table
from fleet.store.promql import quoted

ROW: Final = "row"
VERSIONS: Final = 1000
"""Of one row; those after the last are taken for the last."""
TOGETHER: Final = 2_000
"""Series in one piece of a request: less than a megabyte for ten seconds of them."""
AT_ONCE: Final = 500
"""Entities in one selector."""
TEXTS: Final = ("name", "user")
NAME: Final = "__name__"


def metric(scope: str, name: str) -> str:
    """The name of a series."""
    return f"fettle_{scope}_{name}"


def selectors(
    scope: str, fleet: str, names: Collection[str] | None, entities: Collection[int] | None, *, once: str | None = None
) -> list[str]:
    """Selectors of the series of these metrics (None: all, ROW is one) of these entities (None: all).

    VictoriaMetrics remembers for up to ten seconds which series a selector names, and those that are made meanwhile are left out.
    With `once`, a word that was never used before, nothing is remembered of them.
    """
    of = ".+" if names is None else "|".join(sorted(names))
    start = f'{{fleet={quoted(fleet)},__name__=~"fettle_{scope}_({of})"'
    if once is not None:
        start += f",once!={quoted(once)}"
    if entities is None:
        return [start + "}"]
    wanted = sorted(set(entities))
    groups = (wanted[first : first + AT_ONCE] for first in range(0, len(wanted), AT_ONCE))
    return [f'{start},entity=~"{"|".join(str(one) for one in group)}"}}' for group in groups]


def fields(
    table: Table,
    rows: pl.DataFrame,
    versions: pl.Series,
    fleet: str,
    labels: Mapping[int, Mapping[str, str]],
    *,
    marks: bool = True,
) -> Iterator[bytes]:
    """The `timeseries` fields of unpacked rows, which are ordered by key; `versions` is how often each was written before.

    Without `marks` the series that marks each row, ROW, is left out: no row is read back.
    """
    at = (rows["ts"] * 1000 + versions).to_numpy()
    told = remote_write.samples(at)
    texts = [name for name in TEXTS if name in rows.columns and name in table.columns]
    kept = [*table.keys[:-1], *texts]
    bounds = _bounds(rows, kept)
    heads = [
        _head(group, {**labels.get(group["entity"], {}), "fleet": fleet})
        for group in rows.select(kept)[bounds[:-1]].iter_rows(named=True)
    ]
    if marks:
        told["value"] = 1.0
        yield from _column(metric(table.scope, ROW), heads, bounds, told)
    for name, column in table.columns.items():
        if name in rows.columns and column.is_metric:
            has = rows[name].is_not_null().to_numpy()
            told["value"] = rows[name].cast(pl.Float64).fill_null(0.0).to_numpy()
            if has.all():
                yield from _column(metric(table.scope, name), heads, bounds, told)
            else:
                before = np.concatenate(([0], np.cumsum(has)))
                yield from _column(metric(table.scope, name), heads, before[bounds].tolist(), told[has])


def _column(name: str, heads: Sequence[tuple[bytes, bytes]], bounds: Sequence[int], told: np.ndarray) -> Iterator[bytes]:
    """The fields of one metric, TOGETHER at a time: the inside of this loop is what a write costs."""
    data, width = told.tobytes(), told.dtype.itemsize
    middle = remote_write.label_bytes({NAME: name})
    for first in range(0, len(heads), TOGETHER):
        pieces: list[bytes] = []
        low = bounds[first]
        for (before, after), high in zip(heads[first : first + TOGETHER], bounds[first + 1 :], strict=False):
            if low < high:
                size = len(before) + len(middle) + len(after) + (high - low) * width
                pieces += (remote_write.series_head(size), before, middle, after, data[low * width : high * width])
            low = high
        yield b"".join(pieces)


def _bounds(rows: pl.DataFrame, keys: Sequence[str]) -> list[int]:
    """Where the rows of each series begin, and the end."""
    changed = rows.select(pl.any_horizontal(pl.col(key).ne_missing(pl.col(key).shift(1)) for key in keys)).to_series().to_numpy()
    starts = set(np.flatnonzero(changed).tolist()) | {0}
    return [*sorted(starts), len(rows)]


def _head(group: Mapping[str, object], labels: Mapping[str, str]) -> tuple[bytes, bytes]:
    """The bytes of the labels that sort before __name__ and of those after it."""
    told = dict(labels)
    for name, value in group.items():
        if value is not None:
            told[name] = text_label(str(value)) if name in TEXTS else str(value)
    return _encoded(tuple(told.items()))


@lru_cache(maxsize=1 << 16)
def _encoded(labels: tuple[tuple[str, str], ...]) -> tuple[bytes, bytes]:
    return (
        remote_write.label_bytes({name: value for name, value in labels if name < NAME}),
        remote_write.label_bytes({name: value for name, value in labels if name > NAME}),
    )


def text_label(text: str) -> str:
    """A text as a label, whose empty value would mean that there is none."""
    return "\\" + text if not text or text.startswith("\\") else text
