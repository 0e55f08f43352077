"""Whose faults they are: which programs made which GPUs fault in the last thirty days, kept for a minute."""

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from fleet.inventory.models import Event
from fleet.slow import events as slow_events

KEPT_FOR: Final = timedelta(minutes=1)
"""In a storm the same months of events are not read for each of its thousands."""
MOST: Final = 5_000
"""The newest faults of a month."""


@dataclass(slots=True)
class Faults:
    """By program the GPUs that it made fault, by GPU the programs."""

    gpus: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    programs: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))


_kept: dict[str, tuple[datetime, Faults]] = {}
_lock = threading.Lock()


def classify(event: Event, at: datetime) -> tuple[int, int]:
    """How many programs made this GPU fault in thirty days, and how many GPUs its program did: (0, 0) where nobody knows whose it was."""
    faults = _faults(at)
    who = _program(event, at)
    if event.gpu_id is None or who is None:
        return 0, 0
    return len(faults.programs.get(event.gpu_id, set()) | {who}), len(faults.gpus.get(who, set()) | {event.gpu_id})


def forget() -> None:
    """Read anew next time."""
    _kept.clear()


def _faults(at: datetime) -> Faults:
    with _lock:
        held = _kept.get("")
        if held is None or not timedelta() <= at - held[0] < KEPT_FOR:
            held = _kept[""] = (at, _read(at))
        return held[1]


def _read(at: datetime) -> Faults:
    rows = Event.objects.filter(
        kind="xid", code__in=slow_events.APP_CODES, observed_at__gt=at - slow_events.MONTH, observed_at__lte=at, gpu__isnull=False
    ).order_by("-observed_at")
    told = [slow_events.Told(*row) for row in rows.values_list("node_id", "gpu_id", "kind", "code", "text", "observed_at")[:MOST]]
    runs = slow_events.held(at, {one.node for one in told})
    found = Faults()
    for one in told:
        who = slow_events.program(one, runs)
        if who is not None and one.gpu is not None:
            found.gpus[who].add(one.gpu)
            found.programs[one.gpu].add(who)
    return found


def _program(event: Event, at: datetime) -> str | None:
    told = slow_events.Told(event.node_id, event.gpu_id, event.kind, event.code, event.text, event.observed_at)
    return slow_events.program(told, slow_events.held(at, [event.node_id]))
