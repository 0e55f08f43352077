"""Traffic of the host's disks, from /proc/diskstats."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.metrics import Number

# Whole disks alone: partitions, RAID members and device-mapper targets would count the same bytes again.
_DISK: Final = re.compile(rb"(?:sd[a-z]+|vd[a-z]+|xvd[a-z]+|hd[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+)")
_SECTOR: Final = 512


class Disks:
    """Bytes read from and written to whole disks."""

    names = ("disk_read_bytes_total", "disk_write_bytes_total")

    def __init__(self, proc: Path) -> None:
        self._file = procfs.ProcFile(proc / "diskstats")

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where there is no disk."""
        read = written = disks = 0
        for line in self._file.read().split(b"\n"):
            words = line.split()
            if len(words) >= 10 and _DISK.fullmatch(words[2]):
                disks += 1
                read += int(words[5])
                written += int(words[9])
        return dict(zip(self.names, (read * _SECTOR, written * _SECTOR), strict=True)) if disks else {}

    def close(self) -> None:
        """Close the file."""
        self._file.close()
