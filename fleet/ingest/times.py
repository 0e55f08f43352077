"""Whether a sample's time can be taken: not from ahead, not from before clocks were set, not what the store would not keep.

Rows lie in the store by their node's own time and go by it, so it is that time which is judged; a skew that is known moves
what readers see, never a row.
"""

import math
import time
from typing import Final

from fleet.ingest.skew import MAX_SKEW_S, OLDEST_T, Skew
from fleet.store.kept import Kept
from wire.codec import WireError

MAX_AHEAD_S: Final = 60.0
TAKEN_WITHIN_S: Final = 120.0
"""A batch waits less than so long before the store's server has it."""


def check_time(t: float, seq: int, skew: Skew, received: float, kept: Kept | None) -> None:
    """None when a batch of node time `t` may be stored; else WireError `bad_time`."""
    if not OLDEST_T <= t <= received + MAX_AHEAD_S:  # false for NaN too
        raise WireError("bad_time", _impossible(t, received), seq)
    if kept is None:
        return
    age_s = received - t
    if _is_behind(t, skew, received, kept):
        detail = f"t is {age_s:.0f} s behind this server, and so is the node's clock; {kept.raw_s / 3600:g} hours are kept: check the clocks"
        raise WireError("bad_time", detail, seq)
    if age_s > kept.any_s - TAKEN_WITHIN_S:
        raise WireError("bad_time", f"t is {age_s / 86_400:.1f} days ago; the store keeps {kept.any_s / 86_400:g} days", seq)


def clock_off(t: float, skew: Skew, received: float, kept: Kept | None) -> float | None:
    """Seconds by which the clock is ahead (negative: behind) whose sample was refused; None where it is not the clock's fault, or not known."""
    if 0 < t - received < MAX_SKEW_S:
        return t - received
    return skew.value if kept is not None and _is_behind(t, skew, received, kept) else None


def observed(t: float, skew_s: int, received: float) -> float:
    """When an event of node time `t` was, on the server's clock: its arrival where its clock was never set or says what is to come."""
    return min(t - skew_s, received) if t >= OLDEST_T else received


def _is_behind(t: float, skew: Skew, received: float, kept: Kept) -> bool:
    """True for a sample of a clock so far behind that it would go as soon as it was stored.

    Such a clock that is set right has a younger time next, which is taken and tells so; and what the spool has from before it
    went wrong may be younger too.
    """
    most = kept.raw_s - TAKEN_WITHIN_S
    return -(skew.value or 0.0) > most and received - t > most


def _impossible(t: float, received: float) -> str:
    if not math.isfinite(t):
        return "t is not a number"
    if t > received:
        return f"t is {t - received:.0f} s ahead of this server; {MAX_AHEAD_S:.0f} s are allowed: check the clocks"
    stamp = time.strftime("%Y-%m-%d", time.gmtime(t)) if t > -6e10 else "long ago"
    return f"t is {stamp}: the node's clock was never set"
