"""Which readings of the slow metrics the server has been told: between two readings their columns stay empty."""

from collections.abc import Callable, Sequence
from typing import Final

from agents.source import GPU
from wire.messages import Cell
from wire.metrics import HELD, SLOW_S

_SLOW: Final = tuple(number for number, name in enumerate(GPU) if name in HELD)


class ToldSlow:
    """What was told last of all GPUs, and when, by `monotonic`'s clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._told: list[Sequence[Cell]] | None = None
        self._at = float("-inf")

    def news(self, gpu: list[list[Cell]], holds: bool) -> list[list[Cell]]:
        """The columns to send, in the order of `GPU`: those of slow metrics all, or all empty.

        Empty ones say that nothing has changed since they were told; only a server that `holds` understands them. All travel again
        at least every SLOW_S, since what was told may not have arrived.
        """
        slow: list[Sequence[Cell]] = [gpu[number] for number in _SLOW]
        now = self._monotonic()
        if not holds or slow != self._told or now - self._at >= SLOW_S:
            self._told, self._at = slow, now
            return gpu
        thin = list(gpu)
        for number in _SLOW:
            thin[number] = []
        return thin

    def reset(self) -> None:
        """Tell all with the next tick."""
        self._told = None
