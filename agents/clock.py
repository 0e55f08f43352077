"""Time, behind a seam so that tests can move it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What the agent asks of time."""

    def now(self) -> float:
        """UTC epoch seconds; may jump."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class RealClock:
    """The machine's clock."""

    def now(self) -> float:
        """UTC epoch seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without holding up anything else."""
        await asyncio.sleep(seconds)
