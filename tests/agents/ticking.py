"""A machine's ticks, read by name and waited for."""

import asyncio
from collections.abc import Callable

from agents.machine import Machine
from agents.source import GPU, Tick
from wire.messages import Cell


def named(tick: Tick, gpu: int) -> dict[str, Cell | str | None]:
    """One GPU's readings by name, or their reasons."""
    return {name: tick.gpu_reasons[gpu][i] if tick.gpu[i][gpu] is None else tick.gpu[i][gpu] for i, name in enumerate(GPU)}


async def until(machine: Machine, true: Callable[[Tick], bool]) -> Tick:
    """Tick until `true` says so of a tick."""
    async with asyncio.timeout(30):  # fails instead of hanging
        while not true(tick := await machine.collect()):
            await asyncio.sleep(0.01)
    return tick
