"""Versions of PyTorch and of the CUDA runtime that a process has loaded, from its memory map and torch's own version file.

None of its code runs.
"""

import os
import re
from typing import Final

from agents.collectors import below

MAX_MAPS: Final = 8 << 20
"""Bytes of a memory map that are read; a CUDA process has hundreds of kilobytes."""
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
    maps = below.read_open(os.open(f"{base}/maps", os.O_RDONLY | os.O_CLOEXEC), MAX_MAPS)
    libraries = _libraries(maps)
    runtimes = {match[1].decode() for path in libraries if (match := _CUDART.fullmatch(path.rpartition(b"/")[2]))}
    if runtimes:
        found["cuda"] = max(sorted(runtimes), key=len)
    torch = next((folder for path in libraries if (folder := _torch(path))), None)
    if torch is None:
        return found
    try:
        text = below.read(f"{base}/root", torch + b"/version.py", _MAX_FILE).decode(errors="replace")
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
