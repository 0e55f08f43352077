"""Facts of the host that may change while the agent runs, read again now and then: governor, module parameters, NUMA, drivers.

A change is another hello, which costs a connection, so that one follows another at the earliest after TELL_S.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from msgspec import structs

from agents.worker import Worker
from wire.messages import GpuFacts, HostFacts

log = logging.getLogger(__name__)

EVERY_S: Final = 60.0
TELL_S: Final = 600.0
"""A governor that a program switches to and fro is told of in its newest state, not with every turn."""


class ChangingFacts:
    """Reads in a thread of its own; `news` never waits. `read`: all facts of the host beside the given GPUs."""

    def __init__(self, read: Callable[[tuple[GpuFacts, ...]], HostFacts], clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._worker = Worker("host-facts")
        self._due = clock() + EVERY_S
        self._told_at = float("-inf")
        self._found: tuple[tuple[GpuFacts, ...], HostFacts] | None = None

    def news(self, told: HostFacts, gpus: tuple[GpuFacts, ...]) -> HostFacts | None:
        """The facts in place of those that were `told`, where one of them has changed; else None."""
        now = self._clock()
        if self._worker.busy:
            return None
        if now >= self._due:
            self._due = now + EVERY_S
            self._worker.start(lambda: self._look(gpus), _nothing)
            return None
        if self._found is None or now - self._told_at < TELL_S:
            return None
        (of, found), self._found = self._found, None
        if of != gpus:
            return None  # the stock changed meanwhile, and a hello with it
        # the driver's versions are the driver's word, and a balloon moves the memory of a virtual machine all the time
        fresh = structs.replace(
            found,
            driver_version=told.driver_version,
            cuda_driver_version=told.cuda_driver_version,
            mem_total_bytes=told.mem_total_bytes,
        )
        if fresh == told:
            return None
        self._told_at = now
        return fresh

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._worker.close()

    def _look(self, gpus: tuple[GpuFacts, ...]) -> None:
        try:
            self._found = (gpus, self._read(gpus))
        except Exception:
            log.exception("The host's facts could not be read; they stand, and are read again")


def _nothing() -> None:
    pass
