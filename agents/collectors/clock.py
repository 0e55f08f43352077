"""Clock of the host's cores, from cpufreq in /sys; virtual machines have none."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.metrics import Number

_CORES_MAX: Final = 16
"""The kernel asks each core for its clock with an interrupt: a few cores tell enough of a large machine."""


class CoreClock:
    """Mean clock of a few cores, spread evenly."""

    names = ("cpu_clock_mhz",)

    def __init__(self, sys: Path) -> None:
        self._cpus = sys / "devices" / "system" / "cpu"

    def read(self) -> Mapping[str, Number | str]:
        """Nothing where the kernel does not scale clocks."""
        files = sorted(self._cpus.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        told = [int(procfs.read(str(file))) for file in files[:: max(1, len(files) // _CORES_MAX)]]
        return {"cpu_clock_mhz": sum(told) / len(told) / 1000} if told else {}

    def close(self) -> None:
        """Nothing is open."""
