"""Merging: small files of the last minutes to five-minute files, those to settled hours. One process at a time.

A run ends after RUN_S at the next merge's end, and the next run goes on; each begins with another scope, so that none waits for ever.
"""

import argparse
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from time import monotonic, time
from typing import Final

import polars as pl

from fleet.store import disk
from fleet.store.columns import MAX_KEY, Table
from fleet.store.layout import DAMAGED, HOUR_S, TRASH, Day, File, FileSet, Hour, days, read_day
from fleet.store.parquet import ParquetSeries, encode
from fleet.store.reader import read_files
from fleet.store.series import StoreError

logger = logging.getLogger(__name__)
SLOT_S: Final = 300
"""Flushes that arrived in one slot become one set; an hour settles one slot after its end."""
LATE_S: Final = 3600
"""A settled hour takes in what came late once nothing more came for so long, or once LATE_SETS sets wait."""
LATE_SETS: Final = 12
EVERY_S: Final = 60
RUN_S: Final = 40.0
"""Merging is due every minute and takes one of the worker's two processes: the others' tasks have a third of it left. Merges
keep up by far (two CPU-seconds for a million samples); only what gathered while no worker ran takes more than one run."""
ROW_GROUP: Final = {"b": 15_000, "c": 18_000}


@dataclass(frozen=True, slots=True)
class Merge:
    """Sets of one hour, next to each other in write order, that become one set of `level`."""

    level: str
    day: Path
    sets: tuple[FileSet, ...]


@dataclass(slots=True)
class Done:
    """What one run of the compactor did."""

    merges: int = 0
    deleted: int = 0
    busy: bool = False


def compact(engine: ParquetSeries, now: float, go_on: Callable[[], bool] = lambda: True) -> Done:
    """Repair, merge what is due at `now` and delete what merges took the place of; `busy` when another one is at it.

    StoreError when the disk refuses; what was there stays what counts.
    Safe to kill at any instant and to repeat. `go_on` is asked before every merge; what it ends, the next call goes on with.
    """
    try:
        disk.make_directory(engine.root)
        with disk.locked(engine.root / "compact.lock", wait=False) as lock:
            return Done(busy=True) if lock is None else _compact(engine, now, go_on)
    except OSError as error:
        raise StoreError(f"{engine.root} cannot be merged: {error.strerror or error}; nothing was lost.") from error


def _compact(engine: ParquetSeries, now: float, go_on: Callable[[], bool]) -> Done:
    done = Done()
    roots = [(engine.root / scope, table) for scope, table in engine.tables.items() if (engine.root / scope).is_dir()]
    turn = int(now // EVERY_S) % max(1, len(roots))
    for root, table in roots[turn:] + roots[:turn]:
        repair(root)
        for merge in chain(due(root, "b", now), due(root, "c", now)):
            if not go_on():
                break
            done.merges += _merge(table, merge)
        done.deleted += sum(_unlink(*old) for old in list(_expired(root, engine.grace_s)))
    return done


def is_due(engine: ParquetSeries, now: float) -> bool:
    """True when `compact` would find something to merge or to delete."""
    roots = [engine.root / scope for scope in engine.tables if (engine.root / scope).is_dir()]
    return any(any(due(root, "b", now)) or any(due(root, "c", now)) or any(_expired(root, engine.grace_s)) for root in roots)


def repair(root: Path) -> None:
    """Remove what a killed writer, compactor or prune left half made. The caller holds the compactor's lock."""
    for trash in root.glob(f"{TRASH}*"):
        shutil.rmtree(trash, ignore_errors=True)
    with disk.locked(root / "write.lock"):  # nobody is writing: every temporary file of a flush is an orphan
        listed = [read_day(path) for path in days(root, 0, MAX_KEY)]
        for day in listed:
            for name in day.tmp:
                (day.path / name).unlink(missing_ok=True)
    for day in listed:
        for hour in day.hours.values():
            for one in hour.incomplete:
                if one.first.level != "a":
                    _unlink(day.path, one)


def due(root: Path, level: str, now: float) -> Iterator[Merge]:
    """The merges to `level` that are due, oldest first."""
    for path in days(root, 0, MAX_KEY):
        for number, hour in sorted(_listed(root, path).hours.items()):
            runs = _slots(hour, now) if level == "b" else _settled(hour, number, now)
            for run in runs:
                yield Merge(level, path, tuple(run))


def _listed(root: Path, path: Path) -> Day:
    """The day with no write under way: a listing during one might show a later file and miss an earlier one."""
    with disk.locked(root / "write.lock"):
        return read_day(path)


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
    if run and (_slot(run[0]) + 1) * SLOT_S <= now:
        yield run


def _slot(one: FileSet) -> int:
    return one.first.q0 // 1000 // SLOT_S


def _settled(hour: Hour, number: int, now: float) -> Iterator[list[FileSet]]:
    """The whole hour once it is over and its flushes are merged; again when enough came late."""
    merged = list(takewhile(lambda one: one.first.level != "a", hour.live))
    late = [one for one in merged if one.first.level == "b"]
    if (number + 1) * HOUR_S + SLOT_S > now or not late:
        return
    if len(late) == len(merged) or len(late) >= LATE_SETS or late[-1].first.q1 / 1000 + LATE_S <= now:
        yield merged


def _merge(table: Table, merge: Merge) -> bool:
    """Write the merged set; False when an input was damaged: it is set aside, the next run merges the rest."""
    files = [file for one in merge.sets for file in one.files]
    damaged: set[str] = set()
    ours = pl.all_horizontal(pl.col(key).is_not_null() for key in table.keys)  # a stranger's file has no keys
    paths = [merge.day / file.name for file in files]
    entities = read_files(table, paths, ours, ["entity"], damaged)["entity"].unique().sort()
    if entities.is_empty():  # nothing in them could be read
        _set_aside(merge.day, {path.name for path in paths})
        return False
    size = _shard(merge.level, len(entities))
    chunks = [entities.slice(start, size) for start in range(0, len(entities), size)]
    whole = File(
        merge.level,
        min(file.t0 for file in files),
        max(file.t1 for file in files),
        min(file.q0 for file in files),
        max(file.q1 for file in files),
        0,
        len(chunks),
        0,
        0,
    )
    made: list[tuple[Path, Path]] = []
    try:
        for k, chunk in enumerate(chunks):
            low, high = int(chunk[0]), int(chunk[-1])
            inputs = [merge.day / file.name for file in files if file.e0 <= high and file.e1 >= low]
            data = _sorted(table, inputs, ours & pl.col("entity").is_between(low, high), ROW_GROUP[merge.level], damaged)
            if damaged:
                break
            target = merge.day / File(whole.level, whole.t0, whole.t1, whole.q0, whole.q1, k, whole.shards, low, high).name
            made.append((disk.put(target, data, "merge"), target))
        if damaged:
            _set_aside(merge.day, damaged)
            for tmp, _ in made:
                tmp.unlink(missing_ok=True)
            return False
        disk.reveal(made)
    except BaseException:
        for tmp, _ in made:
            with suppress(OSError):
                tmp.unlink()
        raise
    return True


def _shard(level: str, entities: int) -> int:
    """Entities a shard: few files for a large fleet's five minutes, small memory for its hours (300 MB at 1 Hz)."""
    return min(1000, max(250, entities // 10)) if level == "b" else 125


def _sorted(table: Table, inputs: list[Path], kept: pl.Expr, row_group: int, damaged: set[str]) -> memoryview:
    """One shard as Parquet: ordered, one row a key, a metric without any value left out."""
    rows = table.newest(read_files(table, inputs, kept, list(table.columns), damaged))
    filled = [column.name for column in rows if not table.columns[column.name].is_metric or column.null_count() < len(rows)]
    return encode(rows.select(filled), row_group)


def _set_aside(day: Path, names: set[str]) -> None:
    """Rename damaged files: a set with one still counts as complete, and nobody tries to read it again."""
    for name in names:
        with suppress(FileNotFoundError):
            (day / name).rename(day / f"{name}{DAMAGED}")
            logger.error("%s is damaged; it is set aside as %s%s", day / name, name, DAMAGED)
    disk.sync_directory(day)


def _expired(root: Path, grace_s: float) -> Iterator[tuple[Path, FileSet]]:
    """Sets that a merge took the place of long enough ago: no reader can still be about to open them."""
    for path in days(root, 0, MAX_KEY):
        for hour in read_day(path).hours.values():
            for old, by in hour.superseded:
                with suppress(FileNotFoundError):
                    if max((path / file.name).stat().st_mtime for file in by.files) + grace_s <= time():
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
