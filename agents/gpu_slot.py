"""One GPU's place in the columns, and what the GPUs of a driver bring in a tick."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from agents.device import Gpu, GpuReader, Versions
from agents.frozen import GROUPS, Standstill
from agents.worker import Worker
from wire.messages import Cell, GpuFacts, Hold

log = logging.getLogger(__name__)


class Opened(NamedTuple):
    """What opening the driver brought."""

    devices: tuple[Gpu, ...]
    versions: Versions
    unreachable: tuple[str, ...]


class Slot:
    """One GPU's place in the columns; it stays when the GPU is lost."""

    def __init__(self, facts: GpuFacts, device: Gpu, slow_s: float) -> None:
        self.facts = facts
        self._slow_s = slow_s
        self.xids = 0
        self.lost = False
        self.busy = False  # another profiler holds its counters
        self.worker = Worker(f"gpu-{facts.index}")
        self.attach(device)

    def attach(self, device: Gpu) -> None:
        """Read from `device` from now on; a thread that hangs with the old one is left behind, and ends when it comes back."""
        self.worker.close()
        self.reader: GpuReader = device.reader(self._slow_s)
        self.reader.xids = self.xids
        self.gone = False  # the driver does not list it any more: there is nothing to ask
        self.instances = self.reader.instances
        self.read = 0  # ticks in which it answered since then
        self.standstills = tuple(Standstill(group) for group in GROUPS)
        self.worker = Worker(f"gpu-{self.facts.index}")
        self.late = False


class Stock(NamedTuple):
    """What the driver shows."""

    gpus: tuple[GpuFacts, ...] = ()
    versions: Versions = Versions()


class Rows(NamedTuple):
    """One tick of all GPUs; `values[g]` and `reasons[g]` in the registry's order."""

    values: list[list[Cell]]
    reasons: list[list[str | None]]
    holds: list[Hold]
    holds_reasons: list[str | None]
    accounts: dict[int, dict[str, Cell | str]]
    """What the driver keeps of a process, by pid, over all its GPUs."""


def add_account(known: dict[str, Cell | str], told: dict[str, Cell | str]) -> None:
    """Add what another GPU's driver keeps of a process: of two numbers the larger, of a number and a reason the number."""
    for name, answer in told.items():
        before = known.get(name)
        if before is None or (isinstance(before, str) and not isinstance(answer, str)):
            known[name] = answer
        elif isinstance(before, int | float) and isinstance(answer, int | float):
            known[name] = max(before, answer)


def instance(facts: GpuFacts) -> str:
    """What people call a MIG instance."""
    return f"MIG instance {facts.index} ({facts.mig_profile or 'of unknown size'})"


def reading(reader: GpuReader, now: float) -> Callable[[], None]:
    """A job for the GPU's thread: read what is due at monotonic second `now`; a defect makes its readings absent."""

    def job() -> None:
        try:
            reader.collect(now)
        except Exception:
            log.exception("A GPU could not be read; its readings are absent, and it is read again with the next tick")
            reader.fail("driver_error")

    return job
