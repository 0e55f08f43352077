"""A node with two H200 of recorded answers, ticked as the agent ticks it, for the tests of what it gives on the node."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agents.clock import RealClock
from agents.loop import NodeLoop
from agents.machine import Machine
from agents.nvml_device import NvmlDriver
from agents.spool import Spool
from tests.agents.fake_nvml import FakeNvml

T = 1_800_000_000.0


@contextlib.asynccontextmanager
async def node(nvml: FakeNvml | None = None) -> AsyncIterator[NodeLoop]:
    """A node named n after two ticks; its spool is in memory, it has no server."""
    machine = Machine(NvmlDriver(nvml or FakeNvml()))
    loop = NodeLoop("n", machine, Spool(), None, RealClock())
    try:
        await loop.tick(T)
        await asyncio.sleep(0.05)
        await loop.tick(T + 1)
        yield loop
    finally:
        await machine.close()
