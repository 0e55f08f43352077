"""Files of /proc, kept open and read again from their start."""

import os
from collections.abc import Mapping
from pathlib import Path


class ProcFile:
    """One file of /proc; `read` gives its bytes now. Raises OSError as the kernel does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._size = 16 * 1024

    def read(self) -> bytes:
        """The whole file."""
        if self._fd is None:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            content = os.pread(self._fd, self._size, 0)
            while len(content) == self._size:
                self._size *= 4
                content = os.pread(self._fd, self._size, 0)
        except OSError:
            self.close()
            raise
        return content

    def close(self) -> None:
        """Close it; the next read opens it anew."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def read(path: str) -> bytes:
    """A small file at once, at the least cost that Python has. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 65536)
    finally:
        os.close(fd)


def parents(proc: str, known: Mapping[int, int]) -> dict[int, int]:
    """The parent's pid of every process that is there now; those of `known` are not read again. Empty where `proc` cannot be listed."""
    found: dict[int, int] = {}
    try:
        entries = os.listdir(proc)
    except OSError:
        return found
    for entry in entries:
        if not entry.isdigit():
            continue
        pid = int(entry)
        parent = known.get(pid)
        if parent is None:
            try:
                stat = read(f"{proc}/{entry}/stat")
                parent = int(stat[stat.rindex(b")") + 4 :].split(None, 1)[0])
            except (OSError, ValueError, IndexError):
                continue  # it ended meanwhile
        found[pid] = parent
    return found


def children(parent_of: Mapping[int, int]) -> dict[int, list[int]]:
    """The child pids of every process that has some, by its pid."""
    found: dict[int, list[int]] = {}
    for pid, parent in parent_of.items():
        found.setdefault(parent, []).append(pid)
    return found


def started(proc: str, pid: int) -> list[int]:
    """Pids that the main thread of `pid` started and that live; none where the kernel does not tell (CONFIG_PROC_CHILDREN)."""
    try:
        return [int(child) for child in read(f"{proc}/{pid}/task/{pid}/children").split()]
    except (OSError, ValueError):
        return []


def reason(error: OSError) -> str:
    """Why a file of /proc could not be read, as one of wire.metrics.REASONS."""
    if isinstance(error, PermissionError):
        return "not_permitted"
    if isinstance(error, FileNotFoundError | ProcessLookupError):
        return "not_found"
    return "driver_error"
