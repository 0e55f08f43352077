"""One GPU's place in the columns, and what the GPUs of a driver bring in a tick."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import structs

from agents.device import Gpu, GpuReader, Versions
from agents.frozen import GROUPS, Standstill
from agents.worker import Worker, finish, soon
from wire.messages import Cell, GpuFacts, Hold

log = logging.getLogger(__name__)

TURN_S: Final = 0.1
"""How long GPUs wait for each other; one H200 takes 5 ms."""
MAX_GPUS: Final = 64
"""Of one node, with MIG instances: the server takes no more."""
FIRST_INSTANCE: Final = 100
"""The first MIG instance of GPU 0 is number 100, of GPU 1 number 200."""


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
        self.waits = False  # for its turn to be read
        self.is_broken = False  # its last reading failed over a defect
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

    @property
    def is_reading(self) -> bool:
        """True while its reading has not come back, or is about to begin."""
        return self.worker.busy or self.waits

    def withdraw_frozen(self, values: list[Cell], reasons: list[str | None], tell: Callable[[str, str, str], None]) -> None:
        """Make absent what cannot be true any more because it stands still; `tell` takes an event's kind, GPU and text."""
        frozen, now = [], time.monotonic()
        for standstill in self.standstills:
            if standstill.look(values, now):
                text = "stand still, which those of a live card cannot" if standstill.is_frozen else "move again"
                tell("driver", self.facts.uuid, f"The {standstill.group.name} of GPU {self.facts.index} {text}.")
            if standstill.is_frozen:
                frozen.append(standstill)
        for standstill in frozen:  # only now: each group judges the whole row
            standstill.withdraw(values, reasons)


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


def numbered(facts: GpuFacts, slots: Iterable[Slot]) -> GpuFacts:
    """`facts` with a number that no other GPU has; a slice's begin at FIRST_INSTANCE, so that cards keep theirs."""
    taken = {slot.facts.index for slot in slots}
    index = facts.index if facts.parent_uuid is None else FIRST_INSTANCE * (facts.index + 1)
    while index in taken:
        index += 1
    return structs.replace(facts, index=index)


class Round:
    """One tick's reading of `slots`, one after the other. `future` is done when all are read, or at the deadline.

    The thread that has read a GPU goes on with the next one, whose thread it is from then on: while nothing hangs one thread does
    all. Two threads in the driver at once wait for its lock and for Python's, and each finds its processor's caches cold. Once
    TURN_S are over nobody waits for his turn any more: a GPU that hangs keeps the thread, and the others have theirs.
    """

    def __init__(self, slots: Sequence[Slot], now: float, deadline_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self._loop.create_future()
        self._now = now
        self._left = len(slots)
        self._lock = threading.Lock()
        for slot in slots:
            slot.waits = True
        self._waiting = deque(slots)
        self._timers = (
            self._loop.call_later(min(TURN_S, deadline_s / 4), self._begin_all),
            self._loop.call_later(deadline_s, finish, self.future),
        )
        first, last = slots[0], slots[-1]
        first.worker, last.worker = last.worker, first.worker  # the thread that read all of them the last time
        self._begin(self._waiting.popleft())

    def _begin(self, slot: Slot) -> None:
        slot.worker.start(lambda: self._read_from(slot), self._one_done)
        slot.waits = False

    def _begin_all(self) -> None:
        while (slot := self._next()) is not None:
            self._begin(slot)

    def _next(self) -> Slot | None:
        try:
            return self._waiting.popleft()
        except IndexError:  # another thread may have taken the last one since anybody looked
            return None

    def _read_from(self, slot: Slot) -> None:
        """Read this GPU, then those that wait; in its thread."""
        while True:
            _read(slot, self._now)
            following = self._next()
            if following is None:
                return
            slot.worker, following.worker = following.worker, slot.worker
            following.waits = False
            slot = following
            self._one_done()

    def _one_done(self) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            soon(self._loop, self._end)

    def _end(self) -> None:
        for timer in self._timers:
            timer.cancel()
        finish(self.future)


def _read(slot: Slot, now: float) -> None:
    """Read what is due at monotonic second `now`; a defect makes its readings absent, and is logged once until it can be read again."""
    try:
        slot.reader.collect(now)
    except Exception:
        if not slot.is_broken:
            log.exception(
                "GPU %d could not be read, which is a defect; its readings are absent, and each tick tries it again",
                slot.facts.index,
            )
        slot.is_broken = True
        slot.reader.fail("driver_error")
    else:
        slot.is_broken = False
