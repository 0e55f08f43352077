"""The data loader workers of one process over time: whether one has far more to do than the others, and whether all were replaced.

A batch waits for the slowest worker that has a part in it, and workers that are made anew with each epoch have to warm up again.
"""

import os
import statistics
from collections.abc import Mapping
from typing import Final, TypeAlias

from agents.device import SLOW_S
from wire.messages import Cell

_HZ: Final = os.sysconf("SC_CLK_TCK")
_FEW: Final = 3
_IDLE_S: Final = 0.2
"""Clock ticks are hundredths of a second: workers that took less than this within SLOW_S are not compared."""

Worker: TypeAlias = tuple[int, int]
"""Pid and start time."""


class Workers:
    """Those of one process, from one call of `look` to the next."""

    def __init__(self) -> None:
        self.turnovers = 0
        """Times that not one of the workers that were there was left when others were."""
        self.busiest: Cell | str = "no_previous"
        """CPU of the busiest over the median of all, in the last SLOW_S; `not_found` where fewer than three worked all the time."""
        self._last: frozenset[Worker] = frozenset()
        self._before: dict[Worker, int] = {}
        self._at: float | None = None

    def look(self, ticks: Mapping[Worker, int], now: float) -> None:
        """What each worker that is there has used so far."""
        if ticks:
            there = frozenset(ticks)
            if self._last and not there & self._last:
                self.turnovers += 1
            self._last = there
        if self._at is not None and now - self._at < SLOW_S:
            return
        if self._at is not None:
            self.busiest = _busiest([ticks[one] - was for one, was in self._before.items() if one in ticks])
        self._before, self._at = dict(ticks), now


def _busiest(used: list[int]) -> Cell | str:
    if len(used) < _FEW or (median := statistics.median(used)) < _IDLE_S * _HZ:
        return "not_found"
    return max(used) / median
