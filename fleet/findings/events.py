"""Turns events of inventory into findings, at once: a lost GPU is not a matter of windows."""

import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext_noop

from advisor import xid_catalog
from advisor.xid_catalog import Xid
from fleet.findings import company, lifecycle, witnesses
from fleet.findings.models import Finding
from fleet.inventory.models import Event
from fleet.tuning.in_force import in_force

log = logging.getLogger(__name__)

TOO_OLD: Final = timedelta(days=1)
"""An event that arrives later than this is history: kept, shown with its time, announced to nobody."""
GPU_BACK: Final = gettext_noop("The GPU is back.")
"""The note of the transition that resolves the finding of a lost GPU."""
RECENT: Final = timedelta(days=30)
"""Events of one kind on one GPU within this span are counted together in its finding."""


def handle(events: Sequence[Event]) -> list[Finding]:
    """The findings that the events opened or joined; each event is handled once, whoever else tries.

    Events of one kind on one GPU are handled together, so a storm of them costs no more than one.
    """
    groups: dict[tuple[int | None, str], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda one: one.observed_at):
        xid = xid_of(event)
        kind = event.kind if xid is None else f"{xid.rule}{' companion' if xid.companion else ''}"
        groups[event.gpu_id, kind].append(event)
    return [finding for group in company.in_order(groups.values()) if (finding := _handle_again(group))]


def _handle_again(group: Sequence[Event]) -> Finding | None:
    try:
        return _handle(group)
    except IntegrityError:  # another worker opened the same finding between our look and our write
        return _handle(group)


def _handle(group: Sequence[Event]) -> Finding | None:
    """Handle events of one kind on one GPU, in time order; those of a stronger fault that they belong to go first."""
    handle(company.ahead(group[-1]))
    with transaction.atomic():
        mine = Event.objects.filter(pk__in=[event.pk for event in group], handled_at=None)
        count = mine.update(handled_at=timezone.now())
        event = group[-1]
        if not count or event.gpu is None:
            return None
        now = timezone.now()
        at = min(event.observed_at, now)  # a node's clock may run ahead
        if event.kind == "gpu_back":
            lifecycle.end(f"{xid_catalog.FALLEN.rule}:gpu:{event.gpu_id}", at, GPU_BACK)
            return None
        xid = xid_of(event)
        if xid is None and event.kind == "xid":
            log.warning("XID %s on %s is in no catalogue of ours; it is kept as an event.", event.code, event.node)
        if xid is None or now - at > TOO_OLD:
            return None
        seen = witnesses.of_events(group, now)
        if (leader := company.leader(event, at)) is not None:
            lifecycle.join(leader, at, count=count, seen=seen)
            return leader
        force = in_force()
        if (xid.companion and not _has_company(event)) or xid.rule in force.off:
            return None
        code = event.code if event.kind == "xid" else None
        total = _total(event, xid)
        found = xid_catalog.finding(xid, str(event.gpu_id), event.node.name, event.gpu.uuid, total, code)
        place = lifecycle.Place(event.node_id, (event.gpu.pk,))
        since = min(group[0].observed_at, now)
        row = lifecycle.report(
            at,
            found,
            place,
            count=count,
            since=since,
            shadow=xid.rule in force.shadow,
            seen=seen,
            over_at=company.over_at(event, xid.rule, now),
        )
        if row.seen_total == count and not xid.companion and (followers := company.followers(event, xid.rule)):
            lifecycle.join(row, at, count=len(followers), seen=witnesses.of_events(followers, now))
        return row


def xid_of(event: Event) -> Xid | None:
    """What the event says, in the catalogue's terms; None where it says nothing that a rule knows."""
    if event.kind == "gpu_lost" or "fallen off the bus" in event.text.lower():
        return xid_catalog.FALLEN
    if event.kind == "xid" and event.code is not None:
        return xid_catalog.BY_CODE.get(event.code)
    return None


def _has_company(event: Event) -> bool:
    return (
        Event.objects.filter(
            gpu=event.gpu,
            kind="xid",
            observed_at__range=(event.observed_at - company.SPAN, event.observed_at + company.SPAN),
        )
        .exclude(code=event.code)
        .exists()
    )


def _total(event: Event, xid: Xid) -> int:
    """How many events of the same rule this GPU has reported lately, this one included."""
    codes = [one.code for one in xid_catalog.XIDS if one.rule == xid.rule]
    same = Event.objects.filter(gpu=event.gpu, kind="xid", code__in=codes, observed_at__gt=event.observed_at - RECENT)
    return max(same.count(), 1)
