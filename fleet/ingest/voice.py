"""Who speaks for a node, and how its clock went.

Batches of one boot are numbered as they were taken, and each carries the node's clock: a higher number with an earlier time is a
clock that was set back, never a backlog. The seconds that the node then lives through again replace the ones that were
stored of them before; how many samples that were is counted.
"""

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from fleet.ingest.whereabouts import Elsewhere

if TYPE_CHECKING:
    from fleet.ingest.connection import Connection

SILENT_S: Final = 10.0


@dataclass(slots=True)
class Voice:
    """Which connection speaks for a node, by the times of its batches on the server's clock."""

    connection: "Connection | None"
    boot: str = ""
    first_t: float = math.inf
    newest_t: float = -math.inf
    silent_s: float = SILENT_S
    node: int = 0
    ended_at: float = 0.0
    is_elsewhere: bool = False
    """Another process has the node; `boot` and `newest_t` are of its connection there."""
    seq: int = -1
    """The highest of the boot."""
    t: float = -math.inf
    """Of the batch with that number, on the node's clock."""
    latest_t: float = -math.inf
    """The latest time of any batch, over boots, on the node's clock."""

    def is_at(self, elsewhere: Elsewhere | None) -> None:
        """Learn where the node is; None: nowhere any more."""
        self.is_elsewhere = elsewhere is not None
        self.connection = None
        if elsewhere is not None:
            self.ended_at = time.time()
            self.boot, self.newest_t = elsewhere.boot, max(elsewhere.newest_t, self.newest_t)
            self.seq = -1

    def begins(self, boot: str) -> None:
        """This boot speaks from now on."""
        if self.boot != boot:
            self.boot, self.first_t, self.seq = boot, math.inf, -1

    def follow(self, seq: int, t: float) -> "Step":
        """Take the number and the time, on the node's clock, of a batch of the boot that speaks."""
        if seq <= self.seq:
            return _FORWARD  # sent again, or a backlog
        step = Step(set_back=self.seq >= 0 and t < self.t, again=t <= self.latest_t)
        self.seq, self.t, self.latest_t = seq, t, max(t, self.latest_t)
        return step


@dataclass(frozen=True, slots=True)
class Step:
    """What a batch tells of its node's clock: that it was set back since the one before, that its second was lived through before."""

    set_back: bool
    again: bool


_FORWARD: Final = Step(False, False)
