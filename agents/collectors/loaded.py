"""Versions of PyTorch and of the CUDA runtime that a process has loaded, from its memory map and torch's own version file.

None of its code runs. The file is opened below the process's own root, link by link refused, so that no path leads elsewhere.
"""

import os
import re
import stat
from typing import Final

MAX_MAPS: Final = 8 << 20
"""Bytes of a memory map that are read; a CUDA process has hundreds of kilobytes."""
_CHUNK: Final = 1 << 16
_MAX_FILE: Final = 64 << 10
_PATH_MAX: Final = 4096
_PACKAGES: Final = (b"/site-packages/torch/", b"/dist-packages/torch/")
_VERSIONED: Final = b"0123456789."
_CUDART: Final = re.compile(rb"libcudart\.so\.(\d{1,3}(?:\.\d{1,4}){0,2})")
_VERSION: Final = re.compile(r"^__version__(?:: \w+)? = ['\"]([0-9][\w.+-]{0,40})['\"]", re.MULTILINE)
_CUDA: Final = re.compile(r"^cuda(?:: [\w\[\].]+)? = ['\"](\d{1,3}\.\d{1,3})['\"]", re.MULTILINE)


def labels(base: str) -> dict[str, str]:
    """Labels `torch` and `cuda` of the process with this folder in /proc. OSError where its memory map may not be read."""
    found: dict[str, str] = {}
    maps = _read(os.open(f"{base}/maps", os.O_RDONLY | os.O_CLOEXEC), MAX_MAPS)
    libraries = _libraries(maps)
    runtimes = {match[1].decode() for path in libraries if (match := _CUDART.fullmatch(path.rpartition(b"/")[2]))}
    if runtimes:
        found["cuda"] = max(sorted(runtimes), key=len)
    torch = next((folder for path in libraries if (folder := _torch(path))), None)
    if torch is None:
        return found
    try:
        text = _read(_open_below(f"{base}/root", torch + b"/version.py"), _MAX_FILE).decode(errors="replace")
    except OSError:
        return found
    if version := _VERSION.search(text):
        found["torch"] = version[1]
    built_for = _CUDA.search(text)
    if built_for is not None and found.get("cuda", "").split(".")[0] == built_for[1].split(".")[0] and "." not in found["cuda"]:
        found["cuda"] = built_for[1]  # wheels name the library by its major version alone
    return found


def _libraries(maps: bytes) -> dict[bytes, None]:
    """The paths of shared libraries in the map, in order, each once.

    By hand: whoever holds a GPU chooses the paths, and a pattern that looks for a folder somewhere in one and for an end somewhere
    behind it tries every pair of places.
    """
    found: dict[bytes, None] = {}
    for line in maps.split(b"\n"):
        start = line.find(b"/")
        if start >= 0 and len(line) - start <= _PATH_MAX and line.rstrip(_VERSIONED).endswith(b".so"):
            found[line[start:]] = None
    return found


def _torch(path: bytes) -> bytes:
    """PyTorch's folder of which the library is; empty where it is none's."""
    places = [at + len(packages) - 1 for packages in _PACKAGES if (at := path.find(packages)) >= 0]
    return path[: min(places)] if places else b""


def _open_below(root: str, path: bytes) -> int:
    """A regular file at `path` below `root`; OSError where a part is a link, or the file is not one."""
    folder = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        *parts, name = [part for part in path.split(b"/") if part]
        if b".." in (*parts, name):
            raise OSError("a path that climbs")
        for part in parts:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError("not a regular file")  # opening a pipe or a device might wait or act
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    finally:
        os.close(folder)


def _read(fd: int, limit: int) -> bytes:
    """At most `limit` bytes; closes the file."""
    try:
        parts = []
        while limit > 0 and (part := os.read(fd, min(limit, _CHUNK))):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)
