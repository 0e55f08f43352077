"""How long rows stay, by age and by room. Raw rows go only once their roll-ups are made, unless there is no room for those.

Where a limit of bytes is given and too much is there, the oldest raw hours go first, then the oldest roll-ups, the finest first.
Files that are not the store's are not counted and stay where they are; no link is followed.
"""

import errno
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fleet.store import disk
from fleet.store.columns import MAX_KEY
from fleet.store.layout import (
    DAMAGED,
    HOUR_S,
    RAW,
    RESOLUTIONS,
    ROLLED,
    TRASH,
    Hour,
    Resolution,
    day_of,
    own_days,
    parse,
    read_day,
)
from fleet.store.series import StoreError
from wire.metrics import Scope

if TYPE_CHECKING:
    from fleet.store.parquet import ParquetSeries

logger = logging.getLogger(__name__)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def prune(engine: "ParquetSeries", before: Mapping[int, int], most_bytes: int | None) -> int:
    """As Series.prune. What one directory refuses is said once all others had their turn."""
    refused: list[OSError] = []
    try:
        with disk.locked(engine.lock):
            freed = _old(engine, before, refused)
            if most_bytes is not None:
                freed += _over(engine, most_bytes, refused)
            if refused:
                raise refused[0]
            return freed
    except OSError as error:
        raise StoreError(f"Old rows in {engine.root} cannot be removed: {error.strerror or error}.") from error


def _old(engine: "ParquetSeries", before: Mapping[int, int], refused: list[OSError]) -> int:
    freed, open_ = _whole(engine, before, refused)
    lost: list[str] = []
    for scope, path in open_:  # rolling up takes room, which the others gave
        try:
            freed += _roll_and_drop(engine, scope, path, lost)
        except OSError as error:
            refused.append(error)
    if lost:
        logger.error(
            "Raw rows of %d hours went without roll-ups, for which there was no room: %s", len(lost), ", ".join(lost[:20])
        )
    return freed + _whole(engine, before, [])[0] if open_ else freed  # what was rolled up may be past its time too


def _whole(engine: "ParquetSeries", before: Mapping[int, int], refused: list[OSError]) -> tuple[int, list[tuple[Scope, Path]]]:
    """The bytes of the directories that could go at once, and the days of which not all is rolled up, which stay."""
    freed, limit = 0, MAX_KEY
    open_: list[tuple[Scope, Path]] = []
    for of in RESOLUTIONS:
        limit = min(limit, before.get(of.step_s, 0))  # roll-ups outlive what they are made of
        for scope in engine.tables:
            for path in _days(engine, scope, of, limit - of.folder_s + 1, refused):
                try:
                    if of is RAW and not all(map(_is_settled, read_day(path).hours.values())):
                        open_.append((scope, path))
                    else:
                        freed += _drop(engine, scope, of, path)
                except OSError as error:
                    refused.append(error)
    return freed, open_


def _days(engine: "ParquetSeries", scope: Scope, of: Resolution, end: int, refused: list[OSError]) -> list[Path]:
    try:
        return own_days(engine.folder(scope, of), end, of)
    except OSError as error:
        refused.append(error)
        return []


def _roll_and_drop(engine: "ParquetSeries", scope: Scope, path: Path, lost: list[str]) -> int:
    """An old day of which not all is rolled up goes; where the disk is full, its settled hours first, then all of it."""
    freed, has_room = 0, True
    try:
        _settle(engine, scope, path)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        with engine.writing(scope):
            hours = read_day(path).hours
            freed += sum(_unlink(engine, scope, path, hour) for hour, sets in sorted(hours.items()) if _is_settled(sets))
        try:
            _settle(engine, scope, path)
        except OSError as again:
            if again.errno not in _FULL:
                raise
            has_room = False
            lost += [f"{scope} {_stamp(hour)}" for hour, sets in sorted(read_day(path).hours.items()) if not _is_settled(sets)]
    return freed + _drop(engine, scope, RAW, path, only_settled=has_room)


def _drop(engine: "ParquetSeries", scope: Scope, of: Resolution, path: Path, *, only_settled: bool = True) -> int:
    """A whole directory in one rename; then its bytes are freed. One with a stranger's file stays, with that alone in it.

    So does one of raw rows, `only_settled`, that a backlog was written to a moment ago: the next prune has its roll-ups made.
    """
    if not path.is_dir():
        return 0
    with engine.writing(scope, of):
        day = read_day(path, of)
        if of is RAW and only_settled and not all(map(_is_settled, day.hours.values())):
            return 0
        if day.strange:
            return _unlink(engine, scope, path, None, of)
        trash = path.with_name(f"{TRASH}{path.name}-{time.time_ns()}")
        path.rename(trash)
    freed = sum(entry.stat().st_size for entry in trash.iterdir())
    shutil.rmtree(trash)
    return freed


def _settle(engine: "ParquetSeries", scope: Scope, path: Path, only: int | None = None) -> None:
    """Roll up what of a day (one hour of it) is not rolled up yet; the compactor did so long before, where one runs."""
    from fleet.store.merging import Merge, merge  # it needs the engine, which needs this

    while True:
        with engine.writing(scope):  # a listing during a write might show a later file and miss an earlier one
            hours = read_day(path).hours
        open_ = [hour for number, hour in sorted(hours.items()) if only in (None, number) and not _is_settled(hour)]
        if not open_:
            return
        for hour in open_:
            merge(engine, Merge(scope, RAW, "d", path, tuple(hour.live)))


def _is_settled(hour: Hour) -> bool:
    return not hour.live or [one.first.level for one in hour.live] == ["d"]


def _over(engine: "ParquetSeries", most_bytes: int, refused: list[OSError]) -> int:
    """Free what is over the limit; what the current hour holds stays."""
    used = sum(
        _used(path) for scope in engine.tables for of in RESOLUTIONS for path in _days(engine, scope, of, MAX_KEY, refused)
    )
    if used <= most_bytes:
        return 0
    freed, dropped = 0, []
    for what, drop in _oldest(engine):
        freed += drop()
        dropped.append(what)
        if used - freed <= most_bytes:
            break
    logger.warning(
        "%s takes more than its limit of %.3g GB (FETTLE_STORE_GB): %d of the oldest parts were dropped, %.3g GB, up to %s",
        engine.root, most_bytes / 1e9, len(dropped), freed / 1e9, dropped[-1] if dropped else "none",
    )  # fmt: skip
    return freed


def _oldest(engine: "ParquetSeries") -> Iterator[tuple[str, Callable[[], int]]]:
    """What may go, oldest first: raw hours, then directories of roll-ups, the finest first."""
    now = engine.clock()
    hours = sorted(
        (hour, scope, path)
        for scope in engine.tables
        for path in _days(engine, scope, RAW, MAX_KEY, [])
        for hour in read_day(path).hours
        if (hour + 1) * HOUR_S <= now
    )
    for hour, scope, path in hours:
        yield f"raw rows of {scope} of {_stamp(hour)}", partial(_drop_hour, engine, scope, path, hour)
    for of in ROLLED:
        folders = sorted(
            (path.name, scope, path) for scope in engine.tables for path in _days(engine, scope, of, MAX_KEY, []) if _used(path)
        )
        for name, scope, path in folders:
            yield f"roll-ups {of.name} of {scope} of {name}", partial(_drop, engine, scope, of, path)


def _drop_hour(engine: "ParquetSeries", scope: Scope, path: Path, hour: int) -> int:
    """One hour of rows goes, rolled up where it was not; the bytes that are free by it, those of the new roll-ups taken off."""
    has_room = True
    touched = [path, *(engine.folder(scope, of) / day_of(hour * HOUR_S, of) for of in ROLLED)]
    before = sum(map(_used, touched))
    try:
        _settle(engine, scope, path, hour)
    except OSError as error:
        has_room = False
        logger.error("Raw rows of %s go without roll-ups, for which there is no room: %s", path, error.strerror or error)
    with engine.writing(scope):
        if not has_room or all(_is_settled(sets) for number, sets in read_day(path).hours.items() if number == hour):
            _unlink(engine, scope, path, hour)
    return before - sum(map(_used, touched))


def _unlink(engine: "ParquetSeries", scope: Scope, path: Path, hour: int | None, of: Resolution = RAW) -> int:
    """Remove our own files of one part of a directory, or of all of it; the bytes freed."""
    day, freed = read_day(path, of), 0
    names = [] if hour is not None else list(day.tmp)
    for sets in (sets for number, sets in day.hours.items() if hour in (None, number)):
        # What is covered first: it must not count again.
        for one in [*sets.incomplete, *(old for old, _ in sets.superseded), *sets.live]:
            names += [file.name for file in one.files]
    names += [
        entry.name
        for entry in _files(path)
        if entry.name.endswith(DAMAGED)
        and (file := parse(entry.name.removesuffix(DAMAGED))) is not None
        and hour in (None, file.t0 // of.part_s)
    ]
    for name in names:
        freed += _size(path / name)
        (path / name).unlink(missing_ok=True)
    return freed


def _stamp(hour: int) -> str:
    return time.strftime("%Y-%m-%d %H:00 UTC", time.gmtime(hour * HOUR_S))


def _used(path: Path) -> int:
    """Bytes of our own files in one directory; what is half made, or not ours, is not counted."""
    try:
        names = [entry.name for entry in _files(path) if parse(entry.name.removesuffix(DAMAGED)) is not None]
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return sum(_size(path / name) for name in names)


def _files(path: Path) -> list["os.DirEntry[str]"]:
    """What lies in a directory and is neither a link nor a directory itself."""
    with os.scandir(path) as entries:
        return [entry for entry in entries if entry.is_file(follow_symlinks=False)]


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
