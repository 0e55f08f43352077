"""Reads of one scope's files: what counts is chosen by name, filters go down into the scan."""

import logging
from bisect import bisect_left
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from fleet.store.columns import MAX_KEY, Table
from fleet.store.layout import HOUR_S, RAW, File, Resolution, days, live_files, parse, read_day
from fleet.store.series import StoreError

logger = logging.getLogger(__name__)
_ATTEMPTS = 6
UNREADABLE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
"""What Polars answers damage with; a panic is no Exception."""


class Reader:
    """Stored rows of one scope under `root`. Threads may share it."""

    def __init__(self, root: Path, table: Table, of: Resolution = RAW) -> None:
        self.root = root
        self.table = table
        self.of = of
        self.damaged: set[str] = set()  # files that this process could not read, passed over from then on
        self.strange: set[str] = set()

    def rows(
        self, start: int, end: int, entities: Collection[int] | None, names: Sequence[str], hours: Sequence[int] | None = None
    ) -> pl.DataFrame:
        """Stored rows with start <= ts < end, in `hours` alone if given (rising), ordered by key, one a key."""
        return self.table.newest(self._read(start, end, entities, names, hours=hours))

    def newest(self, since: int, end: int, entities: Collection[int] | None, names: Sequence[str]) -> pl.DataFrame:
        """The newest stored row of each entity (and pid). Keys are read first, then only the files with the answers."""
        table = self.table
        group = list(table.keys[:-1])
        keys = self._read(since, end, entities, table.keys).group_by(group).agg(pl.col("ts").max())
        if keys.is_empty():
            return self._read(end, end, entities, names)
        # Most entities were seen within seconds of each other; those that fell silent would widen the range.
        seconds = keys["ts"].unique().sort()
        rows = self._read(int(seconds[0]), int(seconds[-1]) + 1, entities, names, seconds)
        return table.newest(rows.join(keys, on=[*group, "ts"], how="semi", maintain_order="left"))

    def _read(
        self,
        start: int,
        end: int,
        entities: Collection[int] | None,
        names: Sequence[str],
        seconds: pl.Series | None = None,
        hours: Sequence[int] | None = None,
    ) -> pl.DataFrame:
        """Stored rows in write order within each hour; those with the same key are still there."""
        kept = _filter(start, end, entities)
        if hours is not None and len(hours) <= hours[-1] - hours[0]:
            kept &= (pl.col("ts") // HOUR_S).is_in(pl.Series(hours, dtype=pl.UInt32).implode())
        for _ in range(_ATTEMPTS):
            try:
                return read_files(self.table, self._files(start, end, entities, seconds, hours), kept, names, self.damaged)
            except FileNotFoundError:
                continue  # merged and deleted since the listing: a new listing shows what took its place
            except OSError as error:
                raise StoreError(f"{self.root} cannot be read: {error.strerror or error}.") from error
        raise StoreError(
            f"{self.root} changes faster than it can be listed ({_ATTEMPTS} attempts); does something else delete files there?"
        )

    def _files(
        self,
        start: int,
        end: int,
        entities: Collection[int] | None,
        seconds: pl.Series | None = None,
        hours: Sequence[int] | None = None,
    ) -> list[Path]:
        if start >= end or (entities is not None and not entities):
            return []
        listed = [read_day(path, self.of) for path in days(self.root, start, end, self.of)]
        for day in listed:
            if day.path.is_symlink():
                self._tell_once(day.path, "is a link: what is in it is read, and neither merged nor removed")
            for name in day.strange:
                self._tell_once(day.path / name, "is not a file of the store; it is passed over")
        span = None if entities is None else (min(entities), max(entities))
        files = [path for path in live_files(listed, start, end, span) if path.name not in self.damaged]
        if seconds is not None and len(seconds) < 1000:
            wanted = seconds.to_list()
            files = [path for path in files if (file := parse(path.name)) and any(file.t0 <= ts < file.t1 for ts in wanted)]
        if hours is not None:
            files = [path for path in files if (file := parse(path.name)) and _touches(file, hours)]
        return files

    def _tell_once(self, path: Path, what: str) -> None:
        if path.name not in self.strange:
            self.strange.add(path.name)
            logger.warning("%s %s", path, what)


def _touches(file: File, hours: Sequence[int]) -> bool:
    """True when the file's time has one of the hours."""
    at = bisect_left(hours, file.t0 // HOUR_S)
    return at < len(hours) and hours[at] * HOUR_S < file.t1


def _filter(start: int, end: int, entities: Collection[int] | None) -> pl.Expr:
    kept = (pl.col("ts") >= start) & (pl.col("ts") < end)
    if entities:
        kept &= pl.col("entity").is_between(min(entities), max(entities))
        wanted = set(entities)
        if len(wanted) <= max(wanted) - min(wanted):  # else the range has said it all
            possible = sorted(entity for entity in wanted if 0 <= entity <= MAX_KEY)
            kept &= pl.col("entity").is_in(pl.Series(possible, dtype=pl.UInt32).implode())
    return kept


def read_files(table: Table, files: Sequence[Path], kept: pl.Expr, names: Sequence[str], damaged: set[str]) -> pl.DataFrame:
    """Stored rows of the files in their order. Files that cannot be read are added to `damaged` and left out.

    FileNotFoundError when one has gone.
    """
    schema = {name: table.stored[name] for name in dict.fromkeys((*table.keys, *names))}
    if not files:
        return pl.DataFrame(schema={name: schema[name] for name in names})
    scan = pl.scan_parquet(
        list(files), schema=schema, missing_columns="insert", extra_columns="ignore", glob=False, hive_partitioning=False
    )
    try:
        return _collected(scan.filter(kept).select(names))
    except UNREADABLE:
        # Damage, or a type from before the registry changed: one by one tells which.
        parts = [_read_one(table, path, kept, names, damaged) for path in files]
        return pl.concat(
            [part for part in parts if part is not None] or [pl.DataFrame(schema={name: schema[name] for name in names})]
        )


def _read_one(table: Table, path: Path, kept: pl.Expr, names: Sequence[str], damaged: set[str]) -> pl.DataFrame | None:
    try:
        there = pl.read_parquet_schema(path)
        if missing := [key for key in table.keys if key not in there]:
            raise pl.exceptions.ColumnNotFoundError(f"no column {missing[0]}")
        wanted = [name for name in table.columns if name in {*names, *table.keys}]
        cast = [
            pl.col(name).cast(table.stored[name], strict=False) if name in there else pl.lit(None, table.stored[name]).alias(name)
            for name in wanted
        ]
        return _collected(pl.scan_parquet(path, glob=False, hive_partitioning=False).select(cast).filter(kept).select(names))
    except UNREADABLE as error:
        if path.name not in damaged:
            damaged.add(path.name)
            # Polars writes a panic to stderr by itself, before anybody can catch it.
            told = "; the panic above is about it" if isinstance(error, pl.exceptions.PanicException) else ""
            logger.error(
                "%s is damaged and is passed over%s: %s", path, told, next(iter(str(error).splitlines()), "no reason given")
            )
        return None


def _collected(scan: pl.LazyFrame) -> pl.DataFrame:
    """The rows; ShapeError when damage made columns of different lengths of them, which Polars does not look at."""
    rows = scan.collect()
    if any(len(column) != rows.height for column in rows.get_columns()):
        raise pl.exceptions.ShapeError("its columns differ in length")
    return rows
