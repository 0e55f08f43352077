"""Traffic of the host's disks, from /proc/diskstats."""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from agents.collectors import procfs
from wire.metrics import Number

# Whole disks alone: partitions, RAID members and device-mapper targets would count the same bytes again.
_DISK: Final = re.compile(rb"(?:sd[a-z]+|vd[a-z]+|xvd[a-z]+|hd[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+)")
_SECTOR: Final = 512
_MEANS: Final = ("disk_read_iops", "disk_write_iops", "disk_await_s", "disk_busy_max_pct")


class _Disk(NamedTuple):
    """Counters of one disk; times are milliseconds. `waited`: every request's own time, added up."""

    reads: int
    writes: int
    waited: int
    busy: int


class Disks:
    """Bytes read from and written to whole disks, and means over the time since the call before."""

    names = ("disk_read_bytes_total", "disk_write_bytes_total", *_MEANS)

    def __init__(self, proc: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = procfs.ProcFile(proc / "diskstats")
        self._clock = clock
        self._at: float | None = None
        self._before: dict[bytes, _Disk] = {}
        self._is_disk: dict[bytes, bool] = {}

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where there is no disk."""
        read = written = 0
        now: dict[bytes, _Disk] = {}
        for line in self._file.read().split(b"\n"):
            words = line.split()
            if len(words) < 13:
                continue
            name = words[2]
            if name not in self._is_disk:
                self._is_disk[name] = _DISK.fullmatch(name) is not None
            if self._is_disk[name]:
                read += int(words[5])
                written += int(words[9])
                now[name] = _Disk(int(words[3]), int(words[7]), int(words[6]) + int(words[10]), int(words[12]))
        at = self._clock()
        seconds, self._at = None if self._at is None else at - self._at, at
        before, self._before = self._before, now
        if not now:
            return {}
        found: dict[str, Number | str] = {
            "disk_read_bytes_total": read * _SECTOR,
            "disk_write_bytes_total": written * _SECTOR,
        }
        return found | _means(before, now, seconds)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _means(before: dict[bytes, _Disk], now: dict[bytes, _Disk], seconds: float | None) -> dict[str, Number | str]:
    """Of the disks that were there before and whose counters did not begin anew."""
    # a disk's busy milliseconds are 32 bits in the kernel and wrap after 50 days: that disk sits out one interval
    pairs = [(before[name], disk) for name, disk in now.items() if name in before and not _began_anew(before[name], disk)]
    if not pairs or seconds is None or seconds <= 0:
        return dict.fromkeys(_MEANS, "no_previous")
    reads = sum(b.reads - a.reads for a, b in pairs)
    writes = sum(b.writes - a.writes for a, b in pairs)
    waited = sum(b.waited - a.waited for a, b in pairs)
    busy = max(b.busy - a.busy for a, b in pairs)
    return {
        "disk_read_iops": reads / seconds,
        "disk_write_iops": writes / seconds,
        "disk_await_s": waited / 1000 / (reads + writes) if reads + writes else "not_found",
        "disk_busy_max_pct": min(100.0, busy / 10 / seconds),
    }


def _began_anew(before: _Disk, now: _Disk) -> bool:
    return any(b < a for a, b in zip(before, now, strict=True))
