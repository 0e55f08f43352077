"""Files below another process's root, opened so that no path leads elsewhere: each link is refused, and what is no file too."""

import os
import stat
from typing import Final

FOLDER: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_CHUNK: Final = 1 << 16


def read(root: str, path: bytes, limit: int) -> bytes:
    """At most `limit` bytes of a regular file at `path` below `root`; OSError where a part is a link, or the file is not one."""
    return read_open(_open(root, path), limit)


def read_open(fd: int, limit: int) -> bytes:
    """At most `limit` bytes; closes the file."""
    try:
        parts = []
        while limit > 0 and (part := os.read(fd, min(limit, _CHUNK))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def _open(root: str, path: bytes) -> int:
    folder = os.open(root, FOLDER)
    try:
        *parts, name = [part for part in path.split(b"/") if part]
        if b".." in (*parts, name):
            raise OSError("a path that climbs")
        for part in parts:
            below = os.open(part, FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = below
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError("not a regular file")  # opening a pipe or a device might wait or act
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)
