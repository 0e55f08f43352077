"""How much of the fleet's work is known to be whose: a scheduler's job, a job that only processes show, or nobody's that is known."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count, Sum

from fleet.slow.models import Coverage

SPAN: Final = timedelta(hours=1)
_COUNTED: Final = ("present", "scheduled", "processes", "unknown")
_BUSY: Final = ("busy_scheduled_s", "busy_processes_s", "busy_unknown_s")


@dataclass(frozen=True, slots=True)
class Covered:
    """Sums over whole minutes, from `since` to `until`: minutes of GPUs that reported, and seconds of GPUs at work; null of a share: none."""

    since: datetime
    until: datetime
    minutes: int
    present_gpu_minutes: int
    scheduled_gpu_minutes: int
    processes_gpu_minutes: int
    unknown_gpu_minutes: int
    busy_scheduled_s: float
    busy_processes_s: float
    busy_unknown_s: float

    @property
    def busy_s(self) -> float:
        """Seconds of GPUs at work, whoever for."""
        return self.busy_scheduled_s + self.busy_processes_s + self.busy_unknown_s

    def busy_pct(self, whose: str) -> float | None:
        """The part of the work that is `whose`: scheduled, processes or unknown; None where nothing worked."""
        part: float = getattr(self, f"busy_{whose}_s")
        return 100 * part / self.busy_s if self.busy_s else None

    def gpus_pct(self, whose: str) -> float | None:
        """The part of the GPUs that reported that is `whose`; None where none did. The rest is held by nobody and does nothing."""
        part: int = getattr(self, f"{whose}_gpu_minutes")
        return 100 * part / self.present_gpu_minutes if self.present_gpu_minutes else None


def covered(until: datetime, span: timedelta = SPAN) -> Covered | None:
    """What the minutes say that began within `span` before `until`; None where none was counted."""
    end = int(until.timestamp())
    rows = Coverage.objects.filter(start__gte=end - int(span.total_seconds()), start__lt=end)
    sums = rows.aggregate(minutes=Count("pk"), **{name: Sum(name) for name in (*_COUNTED, *_BUSY)})
    if not sums["minutes"]:
        return None
    return Covered(
        until - span,
        until,
        sums["minutes"],
        *(sums[name] for name in _COUNTED),
        *(sums[name] for name in _BUSY),
    )
