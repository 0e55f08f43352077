"""What a node's outputs tell, without a question to any device: its last tick, and how the agent itself fares."""

import os
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct, field

from agents.source import Inventory, Tick

STALE_S: Final = 10.0
"""A tick that is older than this is not told any more."""


class LastTick(NamedTuple):
    """One tick with what it was of; `at` is monotonic seconds, `t` UTC epoch seconds."""

    inventory: Inventory
    tick: Tick
    t: float
    at: float


class Vitals(Struct):
    """One node's state, kept by its loop. Counts are since the agent began."""

    last: LastTick | None = None
    ticks: int = 0
    late_ticks: int = 0  # seconds that had no tick because the one before took too long
    failed_ticks: int = 0
    failed_events: int = 0  # that no frame can hold
    rejected: int = 0  # readings that could not be true
    xids: dict[str, int] = field(default_factory=dict)  # the last code of each GPU, by UUID
    answered_at: dict[str, float] = field(default_factory=dict)  # monotonic seconds, by UUID

    def take(self, inventory: Inventory, tick: Tick, t: float, at: float) -> None:
        """A tick has ended."""
        self.ticks += 1
        self.last = LastTick(inventory, tick, t, at)
        self.rejected += sum(reasons.count("out_of_range") for reasons in (*tick.gpu_reasons, tick.host_reasons))
        for number, facts in enumerate(inventory.gpus):
            if any(column[number] is not None for column in tick.gpu):
                self.answered_at[facts.uuid] = at


class Delivery(NamedTuple):
    """How a node's records fare on their way to the server; bytes and records wait in the spool."""

    connected: bool = False
    stored: int = 0
    refused: dict[str, int] = {}  # by the server's code
    waiting: int = 0
    waiting_bytes: int = 0
    dropped: int = 0
    dropped_events: int = 0
    unreadable: int = 0  # among those dropped
    write_errors: int = 0


class NodeView(NamedTuple):
    """What outputs see of one node."""

    node: str
    vitals: Vitals
    delivery: Callable[[], Delivery]
    driver_state: Callable[[], str]


def rss_bytes() -> int | None:
    """Resident memory of this process; None where /proc does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def cpu_s() -> float:
    """CPU time of this process, all threads, in seconds."""
    return time.process_time()
