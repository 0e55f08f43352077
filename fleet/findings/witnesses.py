"""Who saw the trouble of a finding: the kernel's log, the driver, the count of devices, a job's log, an engine, a rule over telemetry.

One fault with many witnesses is one finding. Each kind of witness is kept with when it first and last saw it, and how often.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from advisor import xid_catalog
from fleet.findings.models import Finding
from fleet.inventory.models import Event

KERNEL_LOG: Final = "kernel_log"
NVML: Final = "nvml"
DEVICE_COUNT: Final = "device_count"
JOB_LOG: Final = "job_log"
ENGINE: Final = "engine"
ALERTMANAGER: Final = "alertmanager"
RULE: Final = "rule"
INVENTORY: Final = "inventory"
KINDS: Final = (KERNEL_LOG, NVML, DEVICE_COUNT, JOB_LOG, ENGINE, ALERTMANAGER, RULE, INVENTORY)
ALL_CLEAR: Final = "all_clear"
"""Not one who saw it: who said that it is over, where the finding is held open because it is noisy."""
TELEMETRY: Final = frozenset({NVML, ENGINE, RULE})
"""Those that windows of telemetry stand for."""

_REPORTERS: Final = {
    "told-by-alertmanager": ALERTMANAGER,
    "gpu-missing": DEVICE_COUNT,
    **dict.fromkeys(("node-silent", "many-nodes-silent", "source-lagging", "source-frozen", "clock-skew"), INVENTORY),
}
_BARE: Final = re.compile(r"XID \d+")
"""How the driver, and a Prometheus, tell of an XID; the kernel's log says where and of which process."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one kind of witness saw, so many times from the first to the last."""

    first_at: datetime
    last_at: datetime
    count: int = 1


def of_event(event: Event) -> str:
    """The kind of witness that told an event."""
    if event.kind == "alertmanager":
        return ALERTMANAGER
    if event.kind == "xid":
        return NVML if _BARE.fullmatch(event.text.strip()) or not event.text else KERNEL_LOG
    if event.kind in ("gpu_lost", "ecc"):
        return KERNEL_LOG if "fallen off the bus" in event.text.lower() else NVML if event.gpu_id else DEVICE_COUNT
    return KERNEL_LOG if event.boot else INVENTORY


def of_events(events: Iterable[Event], latest: datetime) -> dict[str, Seen]:
    """Who told these events; what a node whose clock runs ahead told is of `latest`."""
    found: dict[str, Seen] = {}
    for event in events:
        kind, at = of_event(event), min(event.observed_at, latest)
        had = found.get(kind)
        found[kind] = Seen(at, at) if had is None else Seen(min(had.first_at, at), max(had.last_at, at), had.count + 1)
    return found


def of_rule(rule: str, scope: str) -> str:
    """The kind of witness that a rule is when a window shows its trouble: the driver's counters for what is the card's own."""
    if rule in xid_catalog.BY_RULE:
        return DEVICE_COUNT if scope == "node" else NVML
    return ENGINE if scope == "service" else RULE


def of_report(rule: str) -> str:
    """The kind of witness of what is reported without saying who saw it."""
    return _REPORTERS.get(rule, KERNEL_LOG)


def note(row: Finding, kind: str, first_at: str, last_at: str, count: int = 1) -> None:
    """Add to the row, which is not written here, that a witness saw it; times in ISO 8601."""
    had = row.witnesses.get(kind)
    if had is None:
        row.witnesses[kind] = {"first_at": first_at, "last_at": last_at, "count": count}
    else:
        had["first_at"], had["last_at"] = min(had["first_at"], first_at), max(had["last_at"], last_at)
        had["count"] += count


def note_all(row: Finding, seen: Mapping[str, Seen]) -> None:
    """Add to the row what several kinds of witnesses saw."""
    for kind, one in seen.items():
        note(row, kind, one.first_at.isoformat(), one.last_at.isoformat(), one.count)


def is_over(row: Finding) -> bool:
    """True when somebody certain said that it is over, and nobody has seen it since."""
    said: Any = row.witnesses.get(ALL_CLEAR)
    return bool(said) and datetime.fromisoformat(said["last_at"]) >= row.last_seen_at
