"""The kernel's line on one process, /proc/PID/stat."""

from dataclasses import dataclass


@dataclass(slots=True)
class Stat:
    """The fields that matter. `ticks` is CPU time and `io_delay` time waited for storage, in clock ticks; `start` tells
    a process from a later one of the same pid; `processor` is the CPU that its main thread last ran on. The last two are None
    where the kernel has no such field."""

    comm: str
    state: str
    parent: int
    ticks: int
    threads: int
    start: int
    io_delay: int | None
    processor: int | None


def parse(content: bytes) -> Stat:
    """The line in parts; ValueError or IndexError for a torn one. The name may hold spaces and parentheses."""
    opening, closing = content.index(b"("), content.rindex(b")")
    words = content[closing + 2 :].split()
    return Stat(
        comm=content[opening + 1 : closing].decode(errors="replace"),
        state=words[0].decode(),
        parent=int(words[1]),
        ticks=int(words[11]) + int(words[12]),
        threads=int(words[17]),
        start=int(words[19]),
        io_delay=int(words[39]) if len(words) > 39 else None,
        processor=int(words[36]) if len(words) > 36 else None,
    )
