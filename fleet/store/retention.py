"""How long rows stay, by age and by room. Raw rows go only once their roll-ups are made.

Where a limit of bytes is given and too much is there, the oldest raw hours go first, then the oldest roll-ups, the finest first.
"""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.store import disk
from fleet.store.columns import MAX_KEY
from fleet.store.layout import HOUR_S, RAW, RESOLUTIONS, ROLLED, TRASH, Hour, Resolution, days, read_day
from fleet.store.series import StoreError
from wire.metrics import Scope

if TYPE_CHECKING:
    from fleet.store.parquet import ParquetSeries

logger = logging.getLogger(__name__)


def prune(engine: "ParquetSeries", before: Mapping[int, int], most_bytes: int | None) -> int:
    """As Series.prune."""
    try:
        with disk.locked(engine.lock):
            freed = _old(engine, before)
            if most_bytes is not None:
                freed += _over(engine, most_bytes)
            return freed
    except OSError as error:
        raise StoreError(f"Old rows in {engine.root} cannot be removed: {error.strerror or error}.") from error


def _old(engine: "ParquetSeries", before: Mapping[int, int]) -> int:
    freed, limit = 0, MAX_KEY
    for of in RESOLUTIONS:
        limit = min(limit, before.get(of.step_s, 0))  # roll-ups outlive what they are made of
        for scope in engine.tables:
            for path in days(engine.folder(scope, of), 0, limit - of.folder_s + 1, of):
                if of is RAW:
                    _settle(engine, scope, path)
                freed += _drop(engine, scope, of, path)
    return freed


def _drop(engine: "ParquetSeries", scope: Scope, of: Resolution, path: Path) -> int:
    """A whole directory in one rename; then its bytes are freed."""
    trash = path.with_name(f"{TRASH}{path.name}-{time.time_ns()}")
    with engine.writing(scope, of):
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


def _over(engine: "ParquetSeries", most_bytes: int) -> int:
    """Free what is over the limit; what the current hour holds stays."""
    used = sum(_size(path) for path in engine.root.rglob("*") if path.is_file())
    if used <= most_bytes:
        return 0
    freed, dropped = 0, []
    for what, drop in _oldest(engine):
        freed += drop()
        dropped.append(what)
        # Rolling up an hour before it goes takes room: what is used now is counted, not guessed.
        used = sum(_size(path) for path in engine.root.rglob("*") if path.is_file())
        if used <= most_bytes:
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
        for path in days(engine.folder(scope), 0, MAX_KEY)
        for hour in read_day(path).hours
        if (hour + 1) * HOUR_S <= now
    )
    for hour, scope, path in hours:
        stamp = time.strftime("%Y-%m-%d %H:00 UTC", time.gmtime(hour * HOUR_S))
        yield f"raw rows of {scope} of {stamp}", lambda hour=hour, scope=scope, path=path: _drop_hour(engine, scope, path, hour)  # type: ignore[misc]
    for of in ROLLED:
        folders = sorted(
            (path.name, scope, path) for scope in engine.tables for path in days(engine.folder(scope, of), 0, MAX_KEY, of)
        )
        for name, scope, path in folders:
            yield f"roll-ups {of.name} of {scope} of {name}", lambda scope=scope, of=of, path=path: _drop(engine, scope, of, path)  # type: ignore[misc]


def _drop_hour(engine: "ParquetSeries", scope: Scope, path: Path, hour: int) -> int:
    try:
        _settle(engine, scope, path, hour)
    except OSError as error:
        logger.error("Raw rows of %s go without roll-ups, for which there is no room: %s", path, error.strerror or error)
    freed = 0
    sets = read_day(path).hours.get(hour)
    if sets is None:
        return 0
    for one in [old for old, _ in sets.superseded] + sets.live:  # what is covered first: it must not count again
        for file in one.files:
            freed += _size(path / file.name)
            (path / file.name).unlink(missing_ok=True)
    return freed


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):
        return path.stat().st_size
    return 0
