"""One merge: small files to larger ones, and from a settled hour its roll-ups, made of the rows that are in memory anyway.

The roll-ups appear before the hour that they are made of: an hour of level d has them. A merge that is killed in between is done
again, and its roll-ups take the place of those that are there. Where rows of an hour come after its earlier ones were removed, as a
backlog's do that takes long, its longer roll-ups are made of all that is known of the hour.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import polars as pl

from fleet.store import disk, rollup
from fleet.store.layout import (
    DAMAGED,
    HOUR_S,
    RAW,
    ROLLED,
    File,
    FileSet,
    Resolution,
    covered,
    day_of,
    days,
    live_files,
    read_day,
)
from fleet.store.parquet import ParquetSeries, encode, low_high
from fleet.store.reader import UNREADABLE, read_files
from fleet.store.rolled import RolledTable
from wire.metrics import Scope

logger = logging.getLogger(__name__)
_ROW_GROUP: Final = {"b": 15_000, "d": 18_000}
_ROW_GROUP_ROLLED: Final = {10: 3_600, 60: 7_200, 3600: 7_200}
"""Of a merged part: that of five or ten entities, so that one is read without its neighbours."""
_SHARD: Final = 125

Made = list[tuple[Path, Path]]


@dataclass(frozen=True, slots=True)
class Merge:
    """Sets of one part, next to each other in write order, that become one set of `level`."""

    scope: Scope
    of: Resolution
    level: str
    day: Path
    sets: tuple[FileSet, ...]


def merge(engine: ParquetSeries, one: Merge) -> bool:
    """Write the merged set; False when an input was damaged: it is set aside, the next run merges the rest."""
    files = [file for each in one.sets for file in each.files]
    paths = [one.day / file.name for file in files]
    table = engine.table(one.scope) if one.of is RAW else engine.rolled[one.scope][one.of]
    damaged: set[str] = set()
    ours = pl.all_horizontal(pl.col(key).is_not_null() for key in table.keys)  # a stranger's file has no keys
    entities = read_files(table, paths, ours, ["entity"], damaged)["entity"].unique().sort()
    if entities.is_empty():  # nothing in them could be read
        _set_aside(one.day, {path.name for path in paths})
        return False
    size = _shard(one.level, len(entities))
    chunks = [entities.slice(start, size) for start in range(0, len(entities), size)]
    rollups = _RollUps(engine, one, len(chunks)) if one.level == "d" else None
    made: Made = []
    try:
        for k, chunk in enumerate(chunks):
            low, high = int(chunk[0]), int(chunk[-1])
            inputs = [one.day / file.name for file in files if file.e0 <= high and file.e1 >= low]
            kept = ours & pl.col("entity").is_between(low, high)
            if isinstance(table, RolledTable):
                rows, group = _rolled(table, inputs, kept, damaged), _ROW_GROUP_ROLLED[one.of.step_s]
            else:
                rows, group = table.newest(read_files(table, inputs, kept, list(table.columns), damaged)), _ROW_GROUP[one.level]
                rows = rows.select(column.name for column in rows if column.name in table.keys or column.null_count() < len(rows))
            if damaged:
                break
            q = min(file.q0 for file in files), max(file.q1 for file in files)
            t = min(file.t0 for file in files), max(file.t1 for file in files)
            target = one.day / File(one.level, *t, *q, k, len(chunks), low, high).name
            made.append((disk.put(target, encode(rows, group), "merge"), target))
            if rollups is not None:
                rollups.add(rows, k)
        if damaged:
            _set_aside(one.day, damaged)
            _remove(made, rollups)
            return False
        disk.reveal((rollups.finish() if rollups is not None else []) + made)
    except BaseException:
        _remove(made, rollups)
        raise
    return True


class _RollUps:
    """The roll-ups of one settled hour, shard by shard; those of an hour's length are few and become one file."""

    def __init__(self, engine: ParquetSeries, one: Merge, shards: int) -> None:
        self._engine = engine
        self._scope: Scope = one.scope
        self._shards = shards
        self._span = min(each.first.t0 for each in one.sets), max(each.first.t1 for each in one.sets)
        hour = self._span[0] // HOUR_S
        self._hour = hour * HOUR_S, (hour + 1) * HOUR_S
        self._is_again = any(hour in covered(engine.folder(self._scope, of), of, *self._hour) for of in ROLLED)
        self._numbers = {of: self._number(of) for of in ROLLED}
        self._hours: list[pl.DataFrame] = []
        self.made: Made = []

    def add(self, rows: pl.DataFrame, k: int) -> None:
        """The rows of shard k."""
        table = self._engine.table(self._scope)
        metrics = [name for name in table.metrics if name in rows.columns]
        alone = rolled = rollup.roll(table, rows, metrics, ROLLED[0].step_s, p95=False)
        self._put(ROLLED[0], rolled, k, self._shards)
        for finer, of in pairwise(ROLLED):
            alone = rollup.merge(table, alone, metrics, of.step_s)
            alone = alone.with_columns(rollup.percentiles(table, rows, metrics, of.step_s))
            rolled = self._with_earlier(alone, finer, rolled, of) if self._is_again else alone
            if of is ROLLED[-1]:
                self._hours.append(rolled)
            else:
                self._put(of, rolled, k, self._shards)

    def _with_earlier(self, alone: pl.DataFrame, finer: Resolution, rolled: pl.DataFrame, of: Resolution) -> pl.DataFrame:
        """Roll-ups of these rows, those with more samples where the finer ones from before, of rows that are gone, tell of them."""
        table, made = self._engine.table(self._scope), self._engine.rolled[self._scope]
        known = made[finer].newest(pl.concat([self._earlier(finer, *low_high(alone, "entity")), rolled], how="diagonal_relaxed"))
        all_ = rollup.merge(table, known, [name for name in table.metrics if name in known.columns], of.step_s)
        here = all_.join(alone, on=list(table.keys), how="semi", maintain_order="left")
        return made[of].newest(pl.concat([here, alone], how="diagonal_relaxed"))

    def _earlier(self, of: Resolution, low: int, high: int) -> pl.DataFrame:
        """The hour's roll-ups that are there, as `rollup` makes them."""
        listed = [read_day(path, of) for path in days(self._engine.folder(self._scope, of), *self._hour, of)]
        start, end = self._hour
        kept = pl.col("entity").is_between(low, high) & (pl.col("ts") >= start) & (pl.col("ts") < end)
        rolled, columns = self._engine.rolled[self._scope][of], set[str]()
        paths = list(live_files(listed, start, end, (low, high)))
        for path in paths:
            with suppress(*UNREADABLE):
                columns.update(pl.read_parquet_schema(path))
        metrics = [name for name in rolled.raw.metrics if name in columns]
        names = [name for name in (*rolled.raw.texts, *rolled.wanted(metrics)) if name in rolled.columns]
        return rolled.made(rolled.newest(read_files(rolled, paths, kept, names, set())), metrics)

    def finish(self) -> Made:
        """All files made, by their temporary and final names."""
        self._put(ROLLED[-1], pl.concat(self._hours, how="diagonal"), 0, 1)
        self._hours.clear()
        return self.made

    def _put(self, of: Resolution, rolled: pl.DataFrame, k: int, shards: int) -> None:
        rows = self._engine.rolled[self._scope][of].store(rolled)
        q, (start, end) = self._numbers[of], self._span
        first, last = start // of.step_s * of.step_s, (end - 1) // of.step_s * of.step_s
        file = File("a", first, last + 1, q, q, k, shards, *low_high(rows, "entity"))
        path = self._engine.folder(self._scope, of) / day_of(first, of) / file.name
        disk.make_directory(path.parent)
        self.made.append((disk.put(path, encode(rows, _ROW_GROUP_ROLLED[of.step_s]), "roll"), path))

    def _number(self, of: Resolution) -> int:
        disk.make_directory(self._engine.folder(self._scope, of))
        with self._engine.writing(self._scope, of) as fd:
            assert fd is not None  # noqa: S101 - it waited
            return self._engine.number(fd, self._scope, of)


def _rolled(table: RolledTable, inputs: list[Path], kept: pl.Expr, damaged: set[str]) -> pl.DataFrame:
    """Roll-ups of one shard: of the columns that no file has, nothing is made."""
    columns: set[str] = set()
    for path in inputs:
        with suppress(*UNREADABLE):  # read_files says what is damaged
            columns.update(pl.read_parquet_schema(path))
    names, metrics = table.told(columns)
    return table.lean(table.whole(table.newest(read_files(table, inputs, kept, names, damaged)), metrics))


def _shard(level: str, entities: int) -> int:
    """Entities a shard: few files for a large fleet's five minutes, small memory for its hours (300 MB at 1 Hz)."""
    return min(1000, max(250, entities // 10)) if level == "b" else _SHARD


def _remove(made: Sequence[tuple[Path, Path]], rollups: _RollUps | None) -> None:
    for tmp, _ in [*made, *(rollups.made if rollups is not None else ())]:
        with suppress(OSError):
            tmp.unlink()


def _set_aside(day: Path, names: set[str]) -> None:
    """Rename damaged files: a set with one still counts as complete, and nobody tries to read it again."""
    for name in names:
        with suppress(FileNotFoundError):
            (day / name).rename(day / f"{name}{DAMAGED}")
            logger.error("%s is damaged; it is set aside as %s%s", day / name, name, DAMAGED)
    disk.sync_directory(day)
