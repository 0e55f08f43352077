"""What one answer of NVML says of a metric, where it is not plainly a reading of it."""

from typing import Any, Final

from wire.messages import Cell
from wire.metrics import Metric, accept

_ROUNDING: Final = 1.005
"""GPM divides two counters that are not read at the same instant: full load may read 100.3 %."""


def member_of(answer: Any, member: str | int) -> object:
    """A member of a struct or a list; None where it has none of that name or place."""
    try:
        # nvidia-ml-py's structs look each member up in Python, for text that they decode
        return object.__getattribute__(answer, member) if isinstance(member, str) else answer[member]
    except (AttributeError, IndexError, TypeError):
        return None


def judged(metric: Metric, raw: object, scale: float) -> tuple[Cell, str | None]:
    """`raw` in the registry's unit, accepted or refused; a sentinel is known by its unscaled value."""
    if scale == 1 or not (type(raw) is int or type(raw) is float):
        return accept(metric, raw)  # text, None and booleans are judged as they are: no arithmetic on them
    value = raw * scale
    if metric.unit == "ratio" and 1 < value <= _ROUNDING:
        return 1.0, None
    accepted, reason = accept(metric, value)
    if reason is not None and accept(metric, raw)[1] == "blank":
        reason = "blank"
    return accepted, reason
