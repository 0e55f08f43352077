"""The node itself: every metric of scope `host`, from readers of one subject each.

A new subject is a file beside this one with a `Reader` (`slow.py`), and a line in FAST, or in `slow` where reading it takes
long, may hang, or says nothing new within seconds.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from agents.collectors.clock import CoreClock
from agents.collectors.cpu import Cpu
from agents.collectors.disks import Disks
from agents.collectors.infiniband import InfiniBand
from agents.collectors.load import Load
from agents.collectors.memory import Memory, SharedMemory, Swapped
from agents.collectors.network import Network, NicRate, Retransmits
from agents.collectors.pressure import Pressure
from agents.collectors.slow import Reader, Slow, answers_of
from agents.device import SLOW_S
from wire.messages import Cell
from wire.metrics import Number, accept, sent

HOST_METRICS: Final = tuple(sent("host"))
POSITION: Final = {metric.name: i for i, metric in enumerate(HOST_METRICS)}
OTHERS: Final = "cpu_other_cores"
"""No reader's: it needs to know who holds a GPU."""


FAST: Final[tuple[Callable[[Path], Reader], ...]] = (Memory, Disks, Load, Pressure)
"""Made with the root of /proc, read each tick. All but Cpu, whose vector of cores the collector hands on, and Network, which asks /sys too."""


def slow(proc: Path, sys: Path, shm: Path) -> tuple[Reader, ...]:
    """What is read now and then, each in a thread of its own: one that hangs costs its own readings alone."""
    return (Swapped(proc), Retransmits(proc), CoreClock(sys), InfiniBand(sys), NicRate(sys), SharedMemory(shm))


class HostCollector:
    """Reads the host. `values[i]` and `reasons[i]` belong to HOST_METRICS[i]; `per_core_pct` is busy percent a core."""

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        shm: Path = Path("/dev/shm"),  # noqa: S108 - the mount itself, nothing is written
        slow_s: float = SLOW_S,
    ) -> None:
        self.values: list[Cell] = [None] * len(HOST_METRICS)
        self.reasons: list[str | None] = ["no_previous"] * len(HOST_METRICS)
        self._cpu = Cpu(proc)
        fast: tuple[Reader, ...] = (self._cpu, Network(proc, sys), *(reader(proc) for reader in FAST))
        self._readers: tuple[Reader, ...] = (*fast, *(Slow(reader, slow_s) for reader in slow(proc, sys, shm)))

    @property
    def per_core_pct(self) -> list[float] | None:
        """Busy percent of each core; None without an interval."""
        return self._cpu.per_core_pct

    def collect(self) -> None:
        """Read everything once; means are over the time since the call before. What one reader cannot read is its own loss."""
        for reader in self._readers:
            answers = answers_of(reader)
            for name in reader.names:
                self._set(POSITION[name], answers.get(name, "unsupported"))

    def tell_used(self, cores: float | str) -> None:
        """What the processes that hold a GPU and their descendants used of the cores that were busy; or why that is not known."""
        busy = POSITION["cpu_busy_cores"]
        told = self.values[busy]
        if told is None:
            self._set(POSITION[OTHERS], self.reasons[busy] or "no_previous")
        else:
            self._set(POSITION[OTHERS], cores if isinstance(cores, str) else max(0.0, told - cores))

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()

    def _set(self, position: int, answer: Number | str) -> None:
        if isinstance(answer, str):
            self.values[position], self.reasons[position] = None, answer
        else:
            self.values[position], self.reasons[position] = accept(HOST_METRICS[position], answer)
