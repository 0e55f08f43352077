"""Load of the host, from /proc/loadavg."""

from collections.abc import Mapping
from pathlib import Path

from agents.collectors import procfs
from wire.metrics import Number


class Load:
    """Tasks that run or wait for CPU or storage."""

    names = ("load_1min",)

    def __init__(self, proc: Path) -> None:
        self._file = procfs.ProcFile(proc / "loadavg")

    def read(self) -> Mapping[str, Number | str]:
        """The kernel's mean of the last minute."""
        return {"load_1min": float(self._file.read().split(b" ", 1)[0])}

    def close(self) -> None:
        """Close the file."""
        self._file.close()
