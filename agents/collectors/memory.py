"""Memory of the host, from /proc/meminfo and /proc/vmstat."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.metrics import Number

_LINE: Final = re.compile(
    rb"^(MemTotal|MemAvailable|SwapTotal|SwapFree|HugePages_Total|HugePages_Free|Hugepagesize): *(\d+)", re.M
)
_SWAPPED: Final = re.compile(rb"^(pswpin|pswpout) (\d+)$", re.M)
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Memory:
    """Memory in use (total less available, the kernel's own estimate of what is free to use), swap and huge pages."""

    names = ("mem_used_bytes", "mem_available_bytes", "swap_used_bytes", "hugepages_total_bytes", "hugepages_free_bytes")

    def __init__(self, proc: Path) -> None:
        self._file = procfs.ProcFile(proc / "meminfo")

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where the kernel tells only a part of what a figure needs."""
        told = _told(self._file.read())
        found: dict[str, Number | str] = {}
        available = told.get(b"MemAvailable")
        if available is not None:
            found["mem_available_bytes"] = available * 1024
            if b"MemTotal" in told:
                found["mem_used_bytes"] = (told[b"MemTotal"] - available) * 1024
        if b"SwapTotal" in told and b"SwapFree" in told:
            found["swap_used_bytes"] = (told[b"SwapTotal"] - told[b"SwapFree"]) * 1024
        if b"Hugepagesize" in told:
            for name, key in (("hugepages_total_bytes", b"HugePages_Total"), ("hugepages_free_bytes", b"HugePages_Free")):
                if key in told:
                    found[name] = told[key] * told[b"Hugepagesize"] * 1024
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Swapped:
    """Bytes swapped in and out. /proc/vmstat is long, and a node that swaps does so for minutes: read now and then."""

    names = ("swap_in_bytes_total", "swap_out_bytes_total")

    def __init__(self, proc: Path) -> None:
        self._file = procfs.ProcFile(proc / "vmstat")

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where the kernel was built without swap."""
        pages = dict(_SWAPPED.findall(self._file.read()))
        keys = (b"pswpin", b"pswpout")
        return {name: int(pages[key]) * _PAGE for name, key in zip(self.names, keys, strict=True) if key in pages}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class SharedMemory:
    """The mount /dev/shm, which data loader workers and NCCL share memory through. Full, it ends programs with a bus error."""

    names = ("shm_used_bytes", "shm_size_bytes")

    def __init__(self, path: Path = Path("/dev/shm")) -> None:  # noqa: S108 - the mount itself, nothing is written
        self._path = path

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where a limit on it is not known: a folder of another file system is no shared memory."""
        if not self._path.is_dir():
            return {}
        stat = os.statvfs(self._path)
        size = stat.f_blocks * stat.f_frsize
        return {"shm_used_bytes": size - stat.f_bfree * stat.f_frsize, "shm_size_bytes": size} if size else {}

    def close(self) -> None:
        """Nothing is open."""


def meminfo(content: bytes) -> tuple[int | None, int | None]:
    """Total and available bytes."""
    told = _told(content)
    total, available = told.get(b"MemTotal"), told.get(b"MemAvailable")
    return None if total is None else total * 1024, None if available is None else available * 1024


def _told(content: bytes) -> dict[bytes, int]:
    return {name: int(number) for name, number in _LINE.findall(content)}
