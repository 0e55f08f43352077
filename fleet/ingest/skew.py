"""How far a node's clock is ahead of the server's, from evidence that a backlog cannot forge.

A frame arrives some delay after the time that it names, so `t - received` is never more than the clock is ahead: the
largest of a connection is the nearest to the truth, and it is kept. A recent value that forgets the older ones would
follow a backlog: batches of an hour ago, sent a second apart, look exactly like a clock that is an hour behind.
Only a hello tells the two apart, since its `t` is its own sending. So:

- without a hello's `t`, a clock may be known to be ahead; that it is behind is never known, and then nothing is;
- a clock that was set back, or drifted, is believed by a new hello. The server asks for one (`asks`) as soon as a batch with a higher
  number has an earlier time, which no backlog has, or when for a while nothing came near the estimate. An agent that does not
  answer looks older than it is until it connects anew.
"""

import math
from dataclasses import dataclass
from typing import Final

from fleet.inventory.models import MIN_SKEW_S, whole_skew

OLDEST_T: Final = 1_577_836_800.0
"""2020-01-01: before it a clock was never set (NVML's boot clock reads as 1970)."""
MAX_SKEW_S: Final = 1e9
NEAR_S: Final = 5.0
"""Batches wait no longer than this on a way that works."""
DOUBT_S: Final = 60.0
"""For so long nothing was near the estimate: a backlog alone flows, or the clock was set back."""


@dataclass(slots=True)
class Skew:
    """What one connection tells of its node's clock."""

    _best: float = -math.inf
    _is_told: bool = False
    _near_at: float = 0.0
    _asked_at: float = 0.0
    _is_set_back: bool = False

    @property
    def value(self) -> float | None:
        """Seconds ahead (negative: behind); None while it is not known."""
        return self._best if self._is_told or self._best > -MIN_SKEW_S else None

    @property
    def whole(self) -> int:
        """Seconds to take from a time of the node to have it on the server's clock; 0 while nothing is known."""
        return whole_skew(self.value)

    def hello(self, t: float | None, received: float) -> None:
        """Take the time of a hello: it is said at once, so even hours behind are the clock and no backlog."""
        if t is None or not OLDEST_T <= t <= received + MAX_SKEW_S:
            return
        ahead = t - received
        # A hello may wait behind batches: it lowers an estimate only where these speak against it too.
        if ahead > self._best or self._is_set_back or received - self._near_at > DOUBT_S:
            self._best = ahead
        self._is_told, self._is_set_back = True, False
        self._near(ahead, received)

    def learn(self, t: float, received: float) -> None:
        """Take the times of one batch."""
        self._best = max(self._best, t - received)
        self._near(t - received, received)

    def set_back(self) -> None:
        """The clock was set back for sure: the next hello counts whatever it says, and is asked for at once."""
        self._is_set_back, self._asked_at, self._near_at = True, 0.0, 0.0

    def asks(self, received: float) -> bool:
        """True, at most once in DOUBT_S, when a hello should say again what the clock is."""
        if not self._is_told or received - max(self._near_at, self._asked_at) <= DOUBT_S:
            return False
        self._asked_at = received
        return True

    def _near(self, ahead: float, received: float) -> None:
        if ahead > self._best - NEAR_S:
            self._near_at = received
