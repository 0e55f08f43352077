"""What is merged when: flushes to five minutes, those to settled hours with their roll-ups. One process at a time.

A run ends after RUN_S at the next merge's end, and the next run goes on; each begins with another scope, so that none waits for ever.
"""

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from time import monotonic, time
from typing import Final

from fleet.store import disk
from fleet.store.columns import MAX_KEY
from fleet.store.layout import (
    HOUR_S,
    RAW,
    RESOLUTIONS,
    ROLLED,
    TRASH,
    Day,
    FileSet,
    Hour,
    Resolution,
    covered,
    own_days,
    read_day,
)
from fleet.store.merging import Merge, merge
from fleet.store.parquet import ParquetSeries
from fleet.store.series import StoreError
from wire.metrics import Scope

SLOT_S: Final = 300
"""Flushes that arrived in one slot become one set; an hour settles one slot after its end."""
LATE_S: Final = 3600
"""A settled hour takes in what came late once nothing more came for so long, or once LATE_SETS sets wait."""
LATE_SETS: Final = 12
EVERY_S: Final = 60
RUN_S: Final = 40.0
"""Merging is due every minute and takes one of the worker's two processes: the others' tasks have a third of it left. Merges
keep up by far (two CPU-seconds for a million samples); only what gathered while no worker ran takes more than one run."""
AHEAD_SETS: Final = 60
"""Flushes numbered by a time that is still to come, as after our own clock was ahead, that are merged without waiting for it."""
SCATTERED: Final = 24
"""Sets of roll-ups in one part that are merged before it is over: a read opens them all."""


@dataclass(slots=True)
class Done:
    """What one run of the compactor did."""

    merges: int = 0
    deleted: int = 0
    busy: bool = False


def compact(engine: ParquetSeries, now: float, go_on: Callable[[], bool] = lambda: True) -> Done:
    """Repair, merge and roll up what is due at `now`, delete what merges took the place of; `busy` when another one is at it.

    StoreError when the disk refuses, once every scope had its turn; what was there stays what counts.
    Safe to kill at any instant and to repeat. `go_on` is asked before every merge; what it ends, the next call goes on with.
    """
    try:
        with disk.locked(engine.lock, wait=False) as lock:
            return Done(busy=True) if lock is None else _compact(engine, now, go_on)
    except OSError as error:
        raise StoreError(f"{engine.root} cannot be merged: {error.strerror or error}; nothing was lost.") from error


def _compact(engine: ParquetSeries, now: float, go_on: Callable[[], bool]) -> Done:
    done = Done()
    scopes = _scopes(engine)
    turn = int(now // EVERY_S) % max(1, len(scopes))
    failed: OSError | None = None
    for scope in scopes[turn:] + scopes[:turn]:
        try:
            _compact_one(engine, scope, now, go_on, done)
        except OSError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return done


def _compact_one(engine: ParquetSeries, scope: Scope, now: float, go_on: Callable[[], bool], done: Done) -> None:
    try:
        for of in RESOLUTIONS:
            repair(engine, scope, of)
        for one in due(engine, scope, now):
            if not go_on():
                break
            done.merges += merge(engine, one)
    finally:  # on a full disk too, which this gives room
        for of in RESOLUTIONS:
            done.deleted += sum(_unlink(*old) for old in list(_expired(engine, scope, of)))


def is_due(engine: ParquetSeries, now: float) -> bool:
    """True when `compact` would find something to merge or to delete."""
    return any(
        any(due(engine, scope, now)) or any(any(_expired(engine, scope, of)) for of in RESOLUTIONS) for scope in _scopes(engine)
    )


def _scopes(engine: ParquetSeries) -> list[Scope]:
    return [scope for scope in engine.tables if engine.folder(scope).is_dir()]


def repair(engine: ParquetSeries, scope: Scope, of: Resolution) -> None:
    """Remove what a killed writer, compactor or prune left half made. The caller holds the compactor's lock."""
    root = engine.folder(scope, of)
    if not root.is_dir():
        return
    for trash in root.glob(f"{TRASH}*"):
        shutil.rmtree(trash, ignore_errors=True)
    with engine.writing(scope, of):  # nobody is writing: every temporary file of a flush is an orphan
        listed = [read_day(path, of) for path in own_days(root, MAX_KEY, of)]
        for day in listed:
            for name in day.tmp:
                (day.path / name).unlink(missing_ok=True)
    for day in listed:
        for hour in day.hours.values():
            for one in hour.incomplete:
                if of is not RAW or one.first.level != "a":
                    _unlink(day.path, one)


def due(engine: ParquetSeries, scope: Scope, now: float) -> Iterator[Merge]:
    """The merges that are due, oldest first: flushes to five minutes, those to settled hours, roll-ups to whole parts."""
    root = engine.folder(scope)
    for path in own_days(root, MAX_KEY):
        for _, hour in sorted(_listed(engine, scope, path).hours.items()):
            for run in _slots(hour, now):
                yield Merge(scope, RAW, "b", path, tuple(run))
    for path in own_days(root, MAX_KEY):
        hours = _listed(engine, scope, path).hours
        rolled = _rolled(engine, scope, hours)
        for number, hour in sorted(hours.items()):
            for run in _settled(hour, number, now, rolled):
                yield Merge(scope, RAW, "d", path, tuple(run))
    for of in ROLLED:
        for path in own_days(engine.folder(scope, of), MAX_KEY, of):
            for number, part in sorted(read_day(path, of).hours.items()):
                if _scattered(part, number, of, now):
                    yield Merge(scope, of, "c", path, tuple(part.live))


def _listed(engine: ParquetSeries, scope: Scope, path: Path) -> Day:
    """The day with no write under way: a listing during one might show a later file and miss an earlier one."""
    with engine.writing(scope):
        return read_day(path)


def _rolled(engine: ParquetSeries, scope: Scope, hours: Collection[int]) -> set[int]:
    """Those of the hours that have roll-ups of every resolution."""
    if not hours:
        return set()
    start, end = min(hours) * HOUR_S, (max(hours) + 1) * HOUR_S
    return set(hours).intersection(*(covered(engine.folder(scope, of), of, start, end) for of in ROLLED))


def _slots(hour: Hour, now: float) -> Iterator[list[FileSet]]:
    """Runs of flushes that arrived in one slot, once the slot is over."""
    run: list[FileSet] = []
    for one in hour.live:
        if one.first.level != "a":
            continue
        if run and _slot(run[0]) != _slot(one):
            yield run
            run = []
        run.append(one)
    if run and ((_slot(run[0]) + 1) * SLOT_S <= now or (len(run) >= AHEAD_SETS and _slot(run[0]) * SLOT_S > now)):
        yield run


def _slot(one: FileSet) -> int:
    return one.first.q0 // 1000 // SLOT_S


def _settled(hour: Hour, number: int, now: float, rolled: Collection[int]) -> Iterator[list[FileSet]]:
    """The whole hour once it is over and its flushes are merged; again when enough came late, or when it lacks roll-ups."""
    merged = list(takewhile(lambda one: one.first.level != "a", hour.live))
    late = [one for one in merged if one.first.level == "b"]
    if (number + 1) * HOUR_S + SLOT_S > now or not merged:
        return
    lacks = any(one.first.level == "c" for one in merged) or not (late or number in rolled)  # from before there were roll-ups
    enough = len(late) == len(merged) or len(late) >= LATE_SETS
    if lacks or enough or (late and late[-1].first.q1 / 1000 + LATE_S <= now):
        yield merged


def _scattered(part: Hour, number: int, of: Resolution, now: float) -> bool:
    """True when the roll-ups of a part lie in so many sets, or will get no more for a while, that they should be one."""
    if len(part.live) >= SCATTERED:
        return True
    over = (number + 1) * of.part_s + LATE_S <= now
    return over and len(part.live) > 1 and part.live[-1].first.q1 / 1000 + LATE_S <= now


def _expired(engine: ParquetSeries, scope: Scope, of: Resolution) -> Iterator[tuple[Path, FileSet]]:
    """Sets that a merge took the place of long enough ago: no reader can still be about to open them."""
    for path in own_days(engine.folder(scope, of), MAX_KEY, of):
        for hour in read_day(path, of).hours.values():
            for old, by in hour.superseded:
                with suppress(FileNotFoundError):
                    if max((path / file.name).stat().st_mtime for file in by.files) + engine.grace_s <= time():
                        yield path, old


def _unlink(day: Path, one: FileSet) -> int:
    for file in one.files:
        (day / file.name).unlink(missing_ok=True)
    return len(one.files)


def main(argv: list[str] | None = None) -> int:
    """Run once over a directory, in a process of its own: memory that a merge took goes back to the system.

    The answer is the exit code: 1 with one sentence on stdout when the store refused.
    """
    parser = argparse.ArgumentParser(prog="fleet.store.compact", description=main.__doc__)
    parser.add_argument("root", type=Path)
    options = parser.parse_args(argv)
    parent, began = os.getppid(), monotonic()
    try:
        compact(ParquetSeries(options.root), time(), go_on=lambda: os.getppid() == parent and monotonic() - began < RUN_S)
    except StoreError as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    logging.basicConfig(format="{asctime} {levelname:<7} {name}: {message}", style="{")
    sys.exit(main())
