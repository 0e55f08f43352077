"""Readings of one process from its folder in /proc, a reader for each file; a reading that fails has a reason."""

import os
from collections.abc import Callable
from typing import Final, TypeAlias

from agents.collectors import procfs
from wire.messages import Cell

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")

Answers: TypeAlias = dict[str, Cell | str]
"""Numbers or reasons by the registry's names."""


def rss(base: str) -> Answers:
    """Resident memory."""
    try:
        return {"rss_bytes": int(procfs.read(f"{base}/statm").split()[1]) * _PAGE}
    except OSError as error:
        return {"rss_bytes": procfs.reason(error)}
    except (ValueError, IndexError):
        return {"rss_bytes": "not_a_number"}


_IO: Final = {
    b"rchar": "read_chars_total",
    b"wchar": "write_chars_total",
    b"read_bytes": "read_bytes_total",
    b"write_bytes": "write_bytes_total",
}
_STATUS: Final = {
    b"RssShmem": ("shmem_bytes", 1024),
    b"voluntary_ctxt_switches": ("voluntary_switches_total", 1),
    b"nonvoluntary_ctxt_switches": ("involuntary_switches_total", 1),
}


def io(base: str) -> Answers:
    """Bytes passed to read and write calls, and bytes that storage moved for them."""
    try:
        content = procfs.read(f"{base}/io")
    except FileNotFoundError:
        return dict.fromkeys(_IO.values(), "unsupported")  # a kernel without task accounting
    except OSError as error:
        return dict.fromkeys(_IO.values(), procfs.reason(error))
    words = dict(line.split(b":", 1) for line in content.split(b"\n") if b":" in line)
    return {name: _whole(words.get(key), 1) for key, name in _IO.items()}


def status(base: str) -> Answers:
    """Shared memory, and context switches of the main thread (the kernel counts them for each thread)."""
    try:
        content = procfs.read(f"{base}/status")
    except OSError as error:
        return {name: procfs.reason(error) for name, _ in _STATUS.values()}
    return {name: _whole(_line(content, key), scale) for key, (name, scale) in _STATUS.items()}


def _line(content: bytes, key: bytes) -> bytes | None:
    """What stands behind `key` at a line's beginning: the file has sixty lines, and taking all apart costs thrice as much."""
    at = content.find(b"\n" + key + b":")
    if at < 0:
        return None
    at += len(key) + 2
    return content[at : content.find(b"\n", at)]


def _whole(word: bytes | None, scale: int) -> Cell | str:
    """A number such as ` 12` or ` 12 kB`; a line that the kernel does not have is `unsupported`."""
    if word is None:
        return "unsupported"
    try:
        return int(word.split()[0]) * scale
    except (ValueError, IndexError):
        return "not_a_number"


READERS: Final[tuple[Callable[[str], Answers], ...]] = (rss, io, status)
"""What is read of each process beside its `stat`; a new reading is a function here, or a file beside this one, and a line here."""
