"""Names of the data set's files, and which of them a reader counts.

`<resolution>/<scope>/<first day>/<level>-<t0>-<t1>-q<first>-<last>-s<k>of<n>-e<low>-<high>.parquet`

- resolution: `raw` the rows as written, `10s`, `1m`, `1h` roll-ups
- level: a as flushed or as rolled up, b merged from five minutes of arrivals, c a settled hour (of roll-ups: a merged part),
  d a settled hour whose roll-ups are made
- t0, t1: the real first second of its rows and one past the last; a file never leaves its part: an hour of UTC, of coarse
  roll-ups a day or thirty
- q: the range of write numbers that it covers. Write numbers only grow, so of two rows with the same key the one
  from the higher number counts, and a merged file takes the place of every file of its part within its range.
- s: shard k of n. A set counts only when all its shards are there.
- e: the lowest and highest entity inside
"""

import errno
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Final

HOUR_S: Final = 3600
DAY_S: Final = 86_400
DAMAGED: Final = ".damaged"
TMP: Final = ".tmp"
TRASH: Final = ".trash-"

_NAME = re.compile(r"([abcd])-(\d{1,10})-(\d{1,10})-q(\d{1,16})-(\d{1,16})-s(\d{1,5})of(\d{1,5})-e(\d{1,10})-(\d{1,10})\.parquet")


@dataclass(frozen=True, slots=True)
class Resolution:
    """Rows of `step_s` seconds: the folder that they lie in, the seconds of a part and of a directory."""

    step_s: int
    name: str
    part_s: int = HOUR_S
    folder_s: int = DAY_S


RAW: Final = Resolution(1, "raw")
ROLLED: Final = (Resolution(10, "10s"), Resolution(60, "1m", DAY_S), Resolution(3600, "1h", 30 * DAY_S, 30 * DAY_S))
RESOLUTIONS: Final = (RAW, *ROLLED)


@dataclass(frozen=True, slots=True)
class File:
    """One file, as its name says."""

    level: str
    t0: int
    t1: int
    q0: int
    q1: int
    shard: int
    shards: int
    e0: int
    e1: int

    @property
    def name(self) -> str:
        """Its name in the day's directory."""
        return f"{self.level}-{self.t0}-{self.t1}-q{self.q0}-{self.q1}-s{self.shard}of{self.shards}-e{self.e0}-{self.e1}.parquet"

    @property
    def set_key(self) -> tuple[str, int, int, int, int, int]:
        """What all shards of one set share."""
        return self.level, self.t0, self.t1, self.q0, self.q1, self.shards


@lru_cache(maxsize=65_536)
def parse(name: str) -> File | None:
    """What a name says; None for a name that is not ours."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    level, *numbers = found.groups()
    return File(level, *(int(number) for number in numbers))


@dataclass(slots=True)
class FileSet:
    """The shards of one flush or one merge; `damaged` are those set aside."""

    files: list[File] = field(default_factory=list)
    damaged: int = 0

    @property
    def first(self) -> File:
        """Any of its files: the set's own ranges are in each name."""
        return self.files[0]

    @property
    def is_complete(self) -> bool:
        """True when every shard is there or known to be damaged."""
        return len(self.files) + self.damaged == self.first.shards

    def holds(self, entity: int, without: Collection[str] = ()) -> bool:
        """True when it may have rows of the entity, in another file than those named in `without`."""
        return any(file.e0 <= entity <= file.e1 and file.name not in without for file in self.files)


@dataclass(slots=True)
class Hour:
    """The sets of one hour (or longer part) in write order: those that count, those that a merge took the place of, and half-made ones."""

    live: list[FileSet]
    superseded: list[tuple[FileSet, FileSet]]  # (old, the set that covers it)
    incomplete: list[FileSet]


@dataclass(slots=True)
class Day:
    """One directory as listed."""

    path: Path
    hours: dict[int, Hour]
    tmp: list[str]
    strange: list[str]


def day_of(ts: int, of: Resolution = RAW) -> str:
    """The first UTC day of the directory that a second lies in, as it is named."""
    return datetime.fromtimestamp(ts // of.folder_s * of.folder_s, UTC).date().isoformat()


def day_start(name: str) -> int | None:
    """The first second of a directory; None when the name is not a day."""
    try:
        day = date.fromisoformat(name)
    except ValueError:
        return None
    return (day - date(1970, 1, 1)) // timedelta(seconds=1) if day.isoformat() == name else None


def days(root: Path, start: int, end: int, of: Resolution = RAW) -> list[Path]:
    """The directories that may hold seconds from `start` up to `end`, oldest first."""
    try:
        names = sorted(entry.name for entry in root.iterdir())
    except FileNotFoundError:
        return []
    known = ((name, day_start(name)) for name in names)
    return [root / name for name, first in known if first is not None and first < end and first + of.folder_s > start]


def own_days(root: Path, end: int, of: Resolution = RAW) -> list[Path]:
    """The directories with seconds before `end` that are no links: in those alone the store merges and removes."""
    return [path for path in days(root, 0, end, of) if not path.is_symlink()]


def read_day(path: Path, of: Resolution = RAW) -> Day:
    """The directory's sets by part, numbered from the epoch. A directory that is gone, or a link to itself, is an empty one."""
    files: list[tuple[File, bool]] = []
    tmp: list[str] = []
    strange: list[str] = []
    try:
        with os.scandir(path) as entries:
            names = [(entry.name, entry.is_file(follow_symlinks=False)) for entry in entries]  # we make no links
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        names = []  # a link to itself
    for name, is_file in names:
        if (
            is_file
            and name.startswith(".")
            and name.endswith(TMP)
            and parse(name.removesuffix(TMP).partition("-")[2]) is not None
        ):
            tmp.append(name)
        elif is_file and (file := parse(name.removesuffix(DAMAGED))) is not None:
            files.append((file, name.endswith(DAMAGED)))
        else:
            strange.append(name)
    files.sort(key=lambda item: (item[0].t0 // of.part_s, *item[0].set_key, item[0].shard))
    hours = {part: _hour(group) for part, group in groupby(files, key=lambda item: item[0].t0 // of.part_s)}
    return Day(path, hours, tmp, strange)


def _hour(files: Iterable[tuple[File, bool]]) -> Hour:
    complete: list[FileSet] = []
    incomplete: list[FileSet] = []
    for _, group in groupby(files, key=lambda item: item[0].set_key):
        shards = list(group)
        whole = FileSet([file for file, bad in shards if not bad], sum(bad for _, bad in shards))
        if whole.files:
            (complete if whole.is_complete else incomplete).append(whole)
    # Ranges of write numbers nest or lie apart, so one pass over the widest-first order finds what is covered.
    complete.sort(key=lambda item: (item.first.q0, -item.first.q1, -ord(item.first.level)))
    hour = Hour([], [], incomplete)
    for candidate in complete:
        if hour.live and candidate.first.q1 <= hour.live[-1].first.q1:
            hour.superseded.append((candidate, hour.live[-1]))
        else:
            hour.live.append(candidate)
    return hour


def live_files(days_: Iterable[Day], start: int, end: int, entities: tuple[int, int] | None = None) -> Iterator[Path]:
    """The files that may hold rows of the time range and of entities low..high, in write order within each hour."""
    for day in days_:
        for hour in day.hours.values():
            for one in hour.live:
                if one.first.t0 >= end or one.first.t1 <= start:
                    continue
                for file in one.files:
                    if entities is None or (file.e0 <= entities[1] and file.e1 >= entities[0]):
                        yield day.path / file.name


def covered(
    root: Path, of: Resolution, start: int, end: int, entity: int | None = None, without: Collection[str] = ()
) -> set[int]:
    """The hours from the first to the last of each file that counts and has seconds of the span (and may have the entity)."""
    hours: set[int] = set()
    for path in days(root, start, end, of):
        for part in read_day(path, of).hours.values():
            for one in part.live:
                known = entity is None or one.holds(entity, without)
                if known and one.first.t0 < end and one.first.t1 + of.step_s > start:
                    hours.update(range(one.first.t0 // HOUR_S, (one.first.t1 - 1) // HOUR_S + 1))
    return hours
