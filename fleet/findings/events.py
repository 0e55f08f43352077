"""Turns events of inventory into findings, at once: a lost GPU is not a matter of windows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from advisor import xid_catalog
from advisor.finding import Finding as Found
from advisor.xid_catalog import Xid
from fleet.findings import company, faults, lifecycle, witnesses
from fleet.findings.meaning import (
    Meaning,
    Notes,
    codes_of,
    has_company,
    is_silent,
    meaning,
    notes_of,
    seen_of,
    with_faults,
    xid_of,
)
from fleet.findings.models import Finding
from fleet.inventory.models import Event
from fleet.tuning.in_force import InForce, in_force

__all__ = ["GPU_BACK", "TOO_OLD", "handle", "xid_of"]

TOO_OLD: Final = timedelta(days=1)
"""An event that arrives later than this is history: kept, shown with its time, announced to nobody."""
GPU_BACK: Final = gettext_noop("The GPU is back.")
"""The note of the transition that resolves the finding of a lost GPU."""
CALLED_OFF: Final = gettext_noop("The driver asks for no recovery action any more.")
"""The note of the transition that resolves what XID 154 asked for."""
RECENT: Final = timedelta(days=30)
"""Events of one kind on one GPU within this span are counted together in its finding."""
FATAL_FOR: Final = timedelta(days=1)
"""For so long a fatal error of an NVSwitch outweighs lesser ones of the same node."""
_NO_NOTES: Final = Notes()


def handle(events: Sequence[Event]) -> list[Finding]:
    """The findings that the events opened or joined; each event is handled once, whoever else tries.

    Events of one kind on one GPU are handled together, so a storm of them costs no more than one.
    """
    force = in_force()
    notes = notes_of({event.node_id: event.node.name for event in events}, timezone.now()) if events else {}
    groups: dict[tuple[int, int | None, str], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda one: one.observed_at):
        means = meaning(event, force, notes.get(event.node_id, _NO_NOTES))
        groups[event.node_id, event.gpu_id, _kind(event, means)].append(event)
    return [finding for group in company.in_order(groups.values()) if (finding := _handle_again(group, force, notes))]


def _kind(event: Event, means: Meaning) -> str:
    """What is handled together."""
    if event.kind == "xid" and event.code == 154:
        return f"recovery {event.details.get('recovery_action') == 0}"
    if means.xid is not None:
        return f"{means.xid.rule}{' companion' if means.xid.companion else ''}{' ignored' if means.ignored else ''}"
    fatal = event.details.get("fatal") if event.kind == "sxid" else ""
    return f"{event.kind} {event.code if event.kind in ('xid', 'sxid') else ''} {fatal}"


def _handle_again(group: Sequence[Event], force: InForce, notes: Mapping[int, Notes]) -> Finding | None:
    try:
        return _handle(group, force, notes)
    except IntegrityError:  # another worker opened the same finding between our look and our write
        return _handle(group, force, notes)


def _handle(group: Sequence[Event], force: InForce, notes: Mapping[int, Notes]) -> Finding | None:
    """Handle events of one kind on one GPU, in time order; those of a stronger fault that they belong to go first."""
    handle(company.ahead(group[-1]))
    with transaction.atomic():
        mine = Event.objects.filter(pk__in=[event.pk for event in group], handled_at=None)
        count = mine.update(handled_at=timezone.now())
        if not count:
            return None
        event, now = group[-1], timezone.now()
        at = min(event.observed_at, now)  # a node's clock may run ahead
        if event.kind == "gpu_back" and event.gpu_id is not None:
            lifecycle.end(f"{xid_catalog.FALLEN.rule}:gpu:{event.gpu_id}", at, GPU_BACK)
            return None
        noted = notes.get(event.node_id, _NO_NOTES)
        means = meaning(event, force, noted)
        if means.ignored or now - at > TOO_OLD:
            return None
        if event.kind == "xid" and event.code == 154 and event.details.get("recovery_action") == 0:
            lifecycle.end(f"gpu-reset-required:gpu:{event.gpu_id}", at, CALLED_OFF)
            return None
        seen = witnesses.of_events(group, now)
        if means.xid is not None and (leader := company.leader(event, at)) is not None:
            lifecycle.join(leader, at, count=count, seen=seen)
            return leader
        found = _found(event, means, noted, now)
        if found is None or found.rule in force.off:
            return None
        place = lifecycle.Place(event.node_id, () if event.gpu_id is None else (event.gpu_id,))
        since = min(group[0].observed_at, now)
        row = lifecycle.report(
            at,
            found,
            place,
            count=count,
            since=since,
            shadow=found.rule in force.shadow,
            seen=seen,
            over_at=_over_at(event, found.rule, now),
        )
        is_companion = means.xid is not None and means.xid.companion
        if row.seen_total == count and not is_companion and (followers := company.followers(event, found.rule)):
            lifecycle.join(row, at, count=len(followers), seen=witnesses.of_events(followers, now))
        return row


def _over_at(event: Event, rule: str, now: datetime) -> datetime | None:
    """When the trouble of an event that arrived late was over, as far as is known now; None where it may last."""
    back = Event.objects.filter(gpu=event.gpu, kind="gpu_back", observed_at__gte=event.observed_at, observed_at__lte=now)
    if rule == xid_catalog.FALLEN.rule and event.gpu is not None and (first := back.order_by("observed_at").first()) is not None:
        return first.observed_at
    quiet = timedelta(seconds=xid_catalog.BY_RULE[rule].quiet_s)
    return event.observed_at + quiet if event.observed_at + quiet <= now else None


def _found(event: Event, means: Meaning, noted: Notes, now: datetime) -> Found | None:
    """What the event is evidence for; None where it is no trouble, or nothing that a rule knows."""
    if event.kind == "sxid" and event.code is not None:
        return None if is_silent(event, "nvswitch-fault", noted) else _of_switch(event, means)
    xid = means.xid
    if xid is None:
        return _unknown(event, means) if event.kind == "xid" and event.code is not None else None
    if not xid.rule or (xid.companion and not has_company(event, xid)) or is_silent(event, xid.rule, noted):
        return None
    seen = seen_of(event)
    if xid.rule == "app-fault-xid":
        seen = with_faults(seen, faults.classify(event, now))
    code = event.code if event.kind == "xid" else None
    target, uuid = (str(event.node_id), "") if event.gpu is None else (str(event.gpu_id), event.gpu.uuid)
    return xid_catalog.finding(xid, target, event.node.name, uuid, _total(event, xid), code, seen, means.severity)


def _unknown(event: Event, means: Meaning) -> Found:
    """One finding a code and node: a code that nobody knows is shown, not swallowed."""
    same = Event.objects.filter(node=event.node_id, kind="xid", code=event.code, observed_at__gt=event.observed_at - RECENT)
    assert event.code is not None  # noqa: S101 - asked before
    return xid_catalog.unknown(event.code, event.node_id, event.node.name, max(same.count(), 1), means.severity)


def _of_switch(event: Event, means: Meaning) -> Found:
    """A fatal error stands for the day over those that are not."""
    same = Event.objects.filter(node=event.node_id, kind="sxid", observed_at__gt=event.observed_at - RECENT)
    assert event.code is not None  # noqa: S101 - asked before
    code, fatal = event.code, event.severity == "critical"
    if not fatal and means.severity is None:
        worse = same.filter(severity="critical", observed_at__gt=event.observed_at - FATAL_FOR).order_by("-observed_at").first()
        if worse is not None and worse.code is not None:
            code, fatal = worse.code, True
    return xid_catalog.of_switch(code, fatal, event.node_id, event.node.name, max(same.count(), 1), means.severity)


def _total(event: Event, xid: Xid) -> int:
    """How many events of the same rule this GPU has reported lately, this one included."""
    codes = {*codes_of(xid.rule), event.code if event.kind == "xid" else None}
    same = Event.objects.filter(node=event.node_id, gpu=event.gpu, kind="xid", observed_at__gt=event.observed_at - RECENT)
    return max(same.filter(code__in=[code for code in codes if code is not None]).count(), 1)
