"""Pressure stall information: how long tasks stood still for want of CPU, memory or storage, from /proc/pressure.

Means are made of the kernel's `total=` counters (microseconds), for its own averages are of 10 s and more. "Some": at
least one task waited; "full": all that were not idle did. The kernel knows no "full" of the CPU for a whole machine.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.metrics import Number

_FILES: Final = (
    ("cpu", ("psi_cpu_some_pct",)),
    ("memory", ("psi_memory_some_pct", "psi_memory_full_pct")),
    ("io", ("psi_io_some_pct", "psi_io_full_pct")),
)


class Pressure:
    """Shares of the time since the call before."""

    names = tuple(name for _, names in _FILES for name in names)

    def __init__(self, proc: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = [(procfs.ProcFile(proc / "pressure" / file), names) for file, names in _FILES]
        self._clock = clock
        self._at: float | None = None
        self._totals: dict[str, int] = {}

    def read(self) -> Mapping[str, Number | str]:
        """Percent of the interval; a kernel without psi (or with psi=0) has none."""
        now = self._clock()
        seconds, self._at = None if self._at is None else now - self._at, now
        before, self._totals = self._totals, {}
        found: dict[str, Number | str] = {}
        for file, names in self._files:
            lines = file.read().split(b"\n")
            for line, name in zip(lines, names, strict=False):
                total = int(line[line.rindex(b"=") + 1 :])
                self._totals[name] = total
                if seconds is None or seconds <= 0 or total < before.get(name, total + 1):
                    found[name] = "no_previous"
                else:
                    found[name] = min(100.0, (total - before[name]) / seconds / 1e4)
        return found

    def close(self) -> None:
        """Close the files."""
        for file, _ in self._files:
            file.close()
