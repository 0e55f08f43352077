"""The embedded engine: a Parquet data set on a local disk, written and read with Polars.

Any number of processes may read, one at a time writes, one at a time merges. docs/decisions/0002-parquet-store.md
says why it lies as it does; layout.py has the names.
"""

import errno
import logging
import time
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Final

import polars as pl

from fleet.store import disk, retention
from fleet.store.answers import plan
from fleet.store.buckets import answer, buckets, check
from fleet.store.columns import MAX_KEY, Table, tables
from fleet.store.layout import HOUR_S, RAW, RESOLUTIONS, ROLLED, File, Resolution, day_of, days, read_day
from fleet.store.reader import Reader
from fleet.store.rolled import RolledTable
from fleet.store.rollup import merge, roll
from fleet.store.series import StoreError
from wire.metrics import METRICS, Metric, Scope

logger = logging.getLogger(__name__)
GRACE_S: Final = 60
"""How long a merged file's inputs stay: longer than the slowest listing and query."""
ROW_GROUP: Final = 5_000
"""Rows of a flush in one group: a part of a large fleet is read without the rest."""


class ParquetSeries:
    """The five calls on files under `root`. Threads may share it; making one touches no disk."""

    def __init__(
        self, root: Path, metrics: Iterable[Metric] = METRICS, clock: Callable[[], float] = time.time, grace_s: float = GRACE_S
    ) -> None:
        self.root = Path(root)
        self.tables = tables(metrics)
        self.rolled = {scope: {of: RolledTable(table, of) for of in ROLLED} for scope, table in self.tables.items()}
        self.readers = {
            scope: {of: Reader(self.folder(scope, of), table if of is RAW else self.rolled[scope][of], of) for of in RESOLUTIONS}
            for scope, table in self.tables.items()
        }
        self.clock = clock
        self.grace_s = grace_s
        self.misfits = 0  # values that did not fit their column and were stored as null
        self._floors: dict[tuple[Scope, Resolution], int] = {}

    # The five calls

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        """As Series.write: one file for each UTC hour in the frame, all of them visible and synced on return."""
        table = self.table(scope)
        packed, misfits = table.pack(frame)
        if packed.is_empty():
            return
        self._count(scope, misfits)
        hours = [(part, encode(part, ROW_GROUP)) for part in by_hour(packed)]
        made: list[tuple[Path, Path]] = []
        try:
            disk.make_directory(self.folder(scope))
            with self.writing(scope) as fd:
                assert fd is not None  # noqa: S101 - it waited
                number = self.number(fd, scope)
                try:
                    for part, data in hours:
                        file = File("a", *span(part, "ts"), number, number, 0, 1, *low_high(part, "entity"))
                        path = self.folder(scope) / day_of(file.t0) / file.name
                        disk.make_directory(path.parent)
                        made.append((disk.put(path, data, "flush"), path))
                except OSError:
                    for tmp, _ in made:
                        with suppress(OSError):
                            tmp.unlink()
                    raise
                disk.reveal(made)
        except OSError as error:
            raise StoreError(refusal(error, self.root, f"{len(frame)} rows of scope {scope} were not stored")) from error

    def window(
        self, scope: Scope, start: int, end: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.window."""
        table = self.table(scope)
        names = table.names(metrics)
        return table.unpack(self.readers[scope][RAW].rows(start, end, entities, names))

    def series(
        self, scope: Scope, entity: int, metrics: Collection[str], start: int, end: int, step_s: int, *, full: bool = False
    ) -> pl.DataFrame:
        """As Series.series."""
        table = self.table(scope)
        names = check(table, metrics, step_s)
        while True:
            damaged = sum(len(reader.damaged) for reader in self.readers[scope].values())
            frame = self._series(table, entity, names, start, end, step_s, full)
            if damaged == sum(len(reader.damaged) for reader in self.readers[scope].values()):
                return frame  # else another resolution may have what a damaged file lacks

    def _series(self, table: Table, entity: int, names: list[str], start: int, end: int, step_s: int, full: bool) -> pl.DataFrame:
        scope = table.scope

        def count(of: Resolution, hours: Sequence[int]) -> dict[int, int]:
            weight = pl.len() if of is RAW else pl.col("n").sum()
            names = [*table.keys] if of is RAW else [*table.keys, "n"]
            rows = self.readers[scope][of].rows(hours[0] * HOUR_S, (hours[-1] + 1) * HOUR_S, [entity], names, hours)
            return dict(rows.group_by(pl.col("ts") // HOUR_S).agg(weight.alias("n")).select("ts", "n").iter_rows())

        try:
            found = plan(self.readers[scope], entity, start, end, step_s, count) if start < end else {}
        except OSError as error:
            raise StoreError(f"{self.root} cannot be read: {error.strerror or error}.") from error
        if found.keys() <= {RAW}:
            return buckets(table, self.window(scope, start, end, [entity], names), names, step_s, full=full)
        parts: list[pl.DataFrame] = []
        rolled_up = sorted(hour for of, hours in found.items() if of is not RAW for hour in hours)
        for of, hours in found.items():
            low, high = max(start - of.step_s + 1, hours[0] * HOUR_S), min(end, (hours[-1] + 1) * HOUR_S)
            reader = self.readers[scope][of]
            if of is RAW:
                rows = table.unpack(reader.rows(low, high, [entity], table.names(names), hours))
                for since, until in runs(hours, rolled_up):
                    run = rows.filter(pl.col("ts").is_between(since, until, closed="left"))
                    # A bucket may begin in hours before the run, which others answer for: it is put where its own rows are.
                    parts.append(roll(table, run, names, step_s, p95=full).with_columns(pl.col("ts").clip(since)))
            else:
                rolled = self.rolled[scope][of]
                parts.append(rolled.read(reader.rows(low, high, [entity], rolled.wanted(names), hours), names))
        ordered = pl.concat(parts, how="vertical_relaxed").sort(table.keys)
        return answer(table, merge(table, ordered, names, step_s), names, full=full)

    def hours(self, scope: Scope, start: int, end: int, metrics: Collection[str]) -> pl.DataFrame:
        """As Hourly.hours."""
        table = self.table(scope)
        names = check(table, metrics, HOUR_S)
        rolled = self.rolled[scope][ROLLED[-1]]
        rows = self.readers[scope][ROLLED[-1]].rows(start, end, None, rolled.wanted(names))
        return answer(table, rolled.read(rows, names), names, full=True, of_all=True)

    def latest(
        self, scope: Scope, since: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.latest."""
        table = self.table(scope)
        return table.unpack(self.readers[scope][RAW].newest(since, MAX_KEY + 1, entities, table.names(metrics)))

    def prune(self, before: Mapping[int, int], most_bytes: int | None = None) -> int:
        """As Series.prune: days that end by their second leave in one rename each, then their bytes are freed."""
        return retention.prune(self, before, most_bytes)

    # For the compactor

    def table(self, scope: Scope) -> Table:
        """The scope's columns; StoreError when there is no such scope."""
        try:
            return self.tables[scope]
        except KeyError:
            raise StoreError(f"No scope {scope!r}; use {', '.join(self.tables)}.") from None

    def folder(self, scope: Scope, of: Resolution = RAW) -> Path:
        """Where the scope's files of a resolution lie."""
        return self.root / of.name / scope

    @property
    def lock(self) -> Path:
        """The file that one compactor or prune at a time has locked; its directory is there."""
        disk.make_directory(self.root / RAW.name)
        return self.root / RAW.name / "compact.lock"

    def writing(self, scope: Scope, of: Resolution = RAW) -> AbstractContextManager[int | None]:
        """While it is held, nobody else writes files of the scope and resolution; the folder is there."""
        return disk.locked(self.folder(scope, of) / "write.lock")

    def number(self, fd: int, scope: Scope, of: Resolution = RAW) -> int:
        """The next write number, for the holder of the lock `fd`."""
        return disk.next_number(fd, self._floor(scope, of), int(self.clock() * 1000))

    def _floor(self, scope: Scope, of: Resolution) -> int:
        """The highest write number in use when this process first wrote: the lock file may be older after a power cut."""
        if (scope, of) not in self._floors:
            listed = (read_day(path, of) for path in days(self.folder(scope, of), 0, MAX_KEY, of))
            files = (one.first for day in listed for hour in day.hours.values() for one in (*hour.live, *hour.incomplete))
            self._floors[scope, of] = max((file.q1 for file in files), default=0)
        return self._floors[scope, of]

    def _count(self, scope: Scope, misfits: int) -> None:
        if misfits and not self.misfits:
            logger.warning("%d values of scope %s do not fit their columns and are stored as absent", misfits, scope)
        self.misfits += misfits


def runs(hours: Sequence[int], others: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The seconds (first, one past the last) of hours that none of `others` lies between; both rise and share none."""
    for _, together in groupby(hours, key=lambda hour: bisect(others, hour)):
        run = list(together)
        yield run[0] * HOUR_S, (run[-1] + 1) * HOUR_S


def by_hour(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """The rows of each UTC hour, oldest first."""
    hours = (rows["ts"] // HOUR_S).unique().sort()
    return [rows] if len(hours) == 1 else [rows.filter(pl.col("ts") // HOUR_S == hour) for hour in hours]


def encode(rows: pl.DataFrame, row_group: int | None = None) -> memoryview:
    """Stored rows as a Parquet file in memory; one row group unless its size is given."""
    buffer = BytesIO()
    rows.write_parquet(buffer, compression="zstd", compression_level=1, statistics=True, row_group_size=row_group or len(rows))
    return buffer.getbuffer()


def refusal(error: OSError, root: Path, outcome: str) -> str:
    """A sentence for what the disk said, and what to do where that is known."""
    reason = f"{root} cannot be written: {error.strerror or error}; {outcome}."
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return reason
    return f"{reason} Free space there, keep raw samples for less time (FETTLE_RETAIN_RAW_H) or give the store a limit (FETTLE_STORE_GB)."


def low_high(rows: pl.DataFrame, key: str) -> tuple[int, int]:
    """The lowest and the highest value of a key."""
    return int(rows[key].min()), int(rows[key].max())  # type: ignore[arg-type] # whole numbers, as the caller checked


def span(rows: pl.DataFrame, key: str) -> tuple[int, int]:
    """The lowest value of a key, and one past the highest."""
    low, high = low_high(rows, key)
    return low, high + 1
