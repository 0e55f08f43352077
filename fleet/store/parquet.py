"""The embedded engine: a Parquet data set on a local disk, written and read with Polars.

Any number of processes may read, one at a time writes, one at a time merges. docs/decisions/0002-parquet-store.md
says why it lies as it does; layout.py has the names.
"""

import logging
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from io import BytesIO
from pathlib import Path
from typing import Final

import polars as pl

from fleet.store import disk
from fleet.store.buckets import buckets, check
from fleet.store.columns import MAX_KEY, Table, tables
from fleet.store.layout import DAY_S, HOUR_S, TRASH, File, day_of, days, read_day
from fleet.store.reader import Reader
from fleet.store.series import StoreError
from wire.metrics import METRICS, Metric, Scope

logger = logging.getLogger(__name__)
GRACE_S: Final = 60
"""How long a merged file's inputs stay: longer than the slowest listing and query."""


class ParquetSeries:
    """The five calls on files under `root`. Threads may share it; making one touches no disk."""

    def __init__(
        self, root: Path, metrics: Iterable[Metric] = METRICS, clock: Callable[[], float] = time.time, grace_s: float = GRACE_S
    ) -> None:
        self.root = Path(root) / "raw"
        self.tables = tables(metrics)
        self.readers = {scope: Reader(self.root / scope, table) for scope, table in self.tables.items()}
        self.clock = clock
        self.grace_s = grace_s
        self.misfits = 0  # values that did not fit their column and were stored as null
        self._floors: dict[Scope, int] = {}

    # The five calls

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        """As Series.write: one file for each UTC hour in the frame, all of them visible and synced on return."""
        table = self.table(scope)
        packed, misfits = table.pack(frame)
        if packed.is_empty():
            return
        self._count(scope, misfits)
        hours = [(part, encode(part)) for part in by_hour(packed)]
        made: list[tuple[Path, Path]] = []
        try:
            disk.make_directory(self.root / scope)
            with self._writing(scope) as fd:
                assert fd is not None  # noqa: S101 - it waited
                number = disk.next_number(fd, self._floor(scope), int(self.clock() * 1000))
                try:
                    for part, data in hours:
                        path = self._path(scope, File("a", *_span(part, "ts"), number, number, 0, 1, *_low_high(part, "entity")))
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
        return table.unpack(self.readers[scope].rows(start, end, entities, names))

    def series(
        self, scope: Scope, entity: int, metrics: Collection[str], start: int, end: int, step_s: int, *, full: bool = False
    ) -> pl.DataFrame:
        """As Series.series."""
        table = self.table(scope)
        names = check(table, metrics, step_s)
        return buckets(table, self.window(scope, start, end, [entity], names), names, step_s, full=full)

    def latest(
        self, scope: Scope, since: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.latest."""
        table = self.table(scope)
        return table.unpack(self.readers[scope].newest(since, MAX_KEY + 1, entities, table.names(metrics)))

    def prune(self, before: Mapping[int, int], most_bytes: int | None = None) -> int:
        """As Series.prune: days that end by `before[1]` leave in one rename each, then their bytes are freed."""
        try:
            disk.make_directory(self.root)
            with disk.locked(self.root / "compact.lock"):
                return sum(self._prune(scope, before.get(1, 0)) for scope in self.tables)
        except OSError as error:
            raise StoreError(f"Old days in {self.root} cannot be removed: {error.strerror or error}.") from error

    def _prune(self, scope: Scope, before: int) -> int:
        freed = 0
        root = self.root / scope
        for day in days(root, 0, before // DAY_S * DAY_S):
            trash = root / f"{TRASH}{day.name}-{time.time_ns()}"
            with self._writing(scope):
                day.rename(trash)
            freed += sum(entry.stat().st_size for entry in trash.iterdir())
            shutil.rmtree(trash)
        return freed

    # For the compactor

    def table(self, scope: Scope) -> Table:
        """The scope's columns; StoreError when there is no such scope."""
        try:
            return self.tables[scope]
        except KeyError:
            raise StoreError(f"No scope {scope!r}; use {', '.join(self.tables)}.") from None

    def _writing(self, scope: Scope) -> AbstractContextManager[int | None]:
        return disk.locked(self.root / scope / "write.lock")

    def _path(self, scope: Scope, file: File) -> Path:
        return self.root / scope / day_of(file.t0) / file.name

    def _floor(self, scope: Scope) -> int:
        """The highest write number in use when this process first wrote: the lock file may be older after a power cut."""
        if scope not in self._floors:
            root = self.root / scope
            listed = (read_day(path) for path in days(root, 0, MAX_KEY))
            files = (one.first for day in listed for hour in day.hours.values() for one in (*hour.live, *hour.incomplete))
            self._floors[scope] = max((file.q1 for file in files), default=0)
        return self._floors[scope]

    def _count(self, scope: Scope, misfits: int) -> None:
        if misfits and not self.misfits:
            logger.warning("%d values of scope %s do not fit their columns and are stored as absent", misfits, scope)
        self.misfits += misfits


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
    return f"{reason} Free space there or keep raw samples for less time (FETTLE_RETAIN_RAW_H)." if error.errno == 28 else reason


def _low_high(rows: pl.DataFrame, key: str) -> tuple[int, int]:
    return int(rows[key].min()), int(rows[key].max())  # type: ignore[arg-type] # whole numbers, as the caller checked


def _span(rows: pl.DataFrame, key: str) -> tuple[int, int]:
    low, high = _low_high(rows, key)
    return low, high + 1
