"""Memory of the host, from /proc/meminfo."""

from collections.abc import Mapping
from pathlib import Path

from agents.collectors import procfs
from wire.metrics import Number


class Memory:
    """Memory in use: total less available, the kernel's own estimate of what is free to use."""

    names = ("mem_used_bytes",)

    def __init__(self, proc: Path) -> None:
        self._file = procfs.ProcFile(proc / "meminfo")

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where the kernel tells one of the two alone."""
        total, available = meminfo(self._file.read())
        return {} if total is None or available is None else {"mem_used_bytes": total - available}

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def meminfo(content: bytes) -> tuple[int | None, int | None]:
    """Total and available bytes."""
    found: dict[bytes, int] = {}
    for line in content.split(b"\n", 8)[:8]:
        words = line.split()
        if len(words) >= 2 and words[0] in (b"MemTotal:", b"MemAvailable:"):
            found[words[0]] = int(words[1]) * 1024
    return found.get(b"MemTotal:"), found.get(b"MemAvailable:")
