"""Files that appear whole or not at all, and the locks and write numbers that order them."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from fleet.store.layout import TMP


def make_directory(path: Path) -> None:
    """Make a directory and its parents so that they survive a power cut."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the directory's entries durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def put(path: Path, data: bytes | memoryview, prefix: str) -> Path:
    """Write and sync `data` beside `path` under a temporary name; that name. OSError leaves nothing behind."""
    tmp = path.with_name(f".{prefix}-{path.name}{TMP}")
    try:
        with tmp.open("wb", buffering=0) as file:
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            os.fsync(file.fileno())
    except OSError:
        with suppress(OSError):
            tmp.unlink()
        raise
    return tmp


def reveal(paths: Sequence[tuple[Path, Path]]) -> None:
    """Rename each (temporary, final) pair and sync the directories; after an OSError none of them is there."""
    try:
        for tmp, final in paths:
            tmp.rename(final)
        for directory in {final.parent for _, final in paths}:
            sync_directory(directory)
    except OSError:
        for tmp, final in paths:
            for path in (tmp, final):
                with suppress(OSError):
                    path.unlink()
        raise


@contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[int | None]:
    """Hold the file's lock, over threads and processes alike; None when it is taken and `wait` is False.

    The kernel lets go of it when the process dies, however it dies.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield None
            return
        yield fd
    finally:
        os.close(fd)


def next_number(fd: int, floor: int, now_ms: int) -> int:
    """The next write number, kept in the locked file: the time in ms, and always more than the one before."""
    text = os.pread(fd, 20, 0)
    last = int(text) if text.isdigit() else 0
    number = max(last + 1, floor + 1, now_ms)
    os.pwrite(fd, b"%020d" % number, 0)
    return number
