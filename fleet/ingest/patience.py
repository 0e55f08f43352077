"""How much a connection may say that brings nothing, before it is read more slowly."""

from dataclasses import dataclass
from typing import Final

AT_ONCE: Final = 20.0
PER_S: Final = 12.0
"""A tenth of what a flood costs, and more than an agent sends whose clock is wrong and that reads ten times a second: its
events are taken, and must not wait behind ever more batches that are not."""
OF_A_FULL_QUEUE: Final = 0.2
"""A batch that is refused for the store's fault counts less. Behind it may be an event, which needs no store."""


@dataclass(slots=True)
class Patience:
    """One a connection. Refused frames and hellos use it up; time alone brings it back, whatever was taken in between."""

    _used: float = 0.0
    _at: float = 0.0

    def use(self, now: float, much: float = 1.0) -> float:
        """Seconds to wait before the next frame is read; `now` in monotonic seconds."""
        self._used = max(0.0, self._used - PER_S * (now - self._at)) + much
        self._at = now
        return max(0.0, self._used - AT_ONCE) / PER_S
