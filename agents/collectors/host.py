"""The node itself: every metric of scope `host`, from readers of one subject each.

A new subject is a file beside this one with a `HostReader`, and a line in READERS.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from agents.collectors import procfs
from agents.collectors.cpu import Cpu
from agents.collectors.disks import Disks
from agents.collectors.memory import Memory, meminfo
from agents.collectors.network import Network
from wire.messages import Cell, HostFacts
from wire.metrics import Number, accept, sent

HOST_METRICS: Final = tuple(sent("host"))
POSITION: Final = {metric.name: i for i, metric in enumerate(HOST_METRICS)}


class HostReader(Protocol):
    """Reads the metrics called `names`; made with the root of /proc."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the registry, scope `host`."""

    def read(self) -> Mapping[str, Number | str]:
        """A number or a reason for each name; one left out is `unsupported`. OSError, ValueError: none can be read now."""

    def close(self) -> None:
        """Close the files."""


READERS: Final[tuple[Callable[[Path], HostReader], ...]] = (Memory, Disks, Network)
"""All but Cpu, whose vector of cores the collector hands on."""


class HostCollector:
    """Reads the host. `values[i]` and `reasons[i]` belong to HOST_METRICS[i]; `per_core_pct` is busy percent a core."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.values: list[Cell] = [None] * len(HOST_METRICS)
        self.reasons: list[str | None] = ["no_previous"] * len(HOST_METRICS)
        self._cpu = Cpu(proc)
        self._readers: tuple[HostReader, ...] = (self._cpu, *(reader(proc) for reader in READERS))

    @property
    def per_core_pct(self) -> list[float] | None:
        """Busy percent of each core; None without an interval."""
        return self._cpu.per_core_pct

    def collect(self) -> None:
        """Read everything once; means are over the time since the call before. What one reader cannot read is its own loss."""
        for reader in self._readers:
            try:
                answers = reader.read()
            except OSError as error:
                answers = dict.fromkeys(reader.names, _missing(error))
            except (ValueError, IndexError):  # the kernel's text is not as it is known
                answers = dict.fromkeys(reader.names, "not_a_number")
            for name in reader.names:
                self._set(POSITION[name], answers.get(name, "unsupported"))

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()

    def _set(self, position: int, answer: Number | str) -> None:
        if isinstance(answer, str):
            self.values[position], self.reasons[position] = None, answer
        else:
            self.values[position], self.reasons[position] = accept(HOST_METRICS[position], answer)


def facts(proc: Path = Path("/proc")) -> HostFacts:
    """The host's size and kernel; None where it does not say."""
    try:
        total, _ = meminfo(procfs.read(str(proc / "meminfo")))
    except OSError:
        total = None
    return HostFacts(cores=os.cpu_count(), mem_total_bytes=total, kernel=os.uname().release)


def _missing(error: OSError) -> str:
    """A file of /proc that this kernel does not have is `unsupported`, not `not_found`."""
    reason = procfs.reason(error)
    return "unsupported" if reason == "not_found" else reason
