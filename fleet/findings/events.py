"""Turns events of inventory into findings, at once: a lost GPU is not a matter of windows."""

import logging
from datetime import timedelta
from typing import Final

from django.db import IntegrityError, transaction
from django.utils import timezone

from advisor import xid_catalog
from advisor.xid_catalog import Xid
from fleet.findings import lifecycle
from fleet.findings.models import Finding
from fleet.inventory.models import Event

log = logging.getLogger(__name__)

TOO_OLD: Final = timedelta(days=1)
"""An event that arrives later than this is history: kept, shown with its time, announced to nobody."""
COMPANION_SPAN: Final = timedelta(minutes=1)
"""How near to another fault an XID that only follows others must be to count as part of it."""
RECENT: Final = timedelta(days=30)
"""Events of one kind on one GPU within this span are counted together in its finding."""


def handle(event: Event) -> Finding | None:
    """The finding that the event opened or joined, None where it asks for none. Each event is handled once."""
    try:
        return _handle(event)
    except IntegrityError:  # another worker opened the same finding between our look and our write
        return _handle(event)


def _handle(event: Event) -> Finding | None:
    with transaction.atomic():
        if not Event.objects.filter(pk=event.pk, handled_at=None).update(handled_at=timezone.now()):
            return None
        if event.gpu is None:
            return None
        at = min(event.observed_at, timezone.now())  # a node's clock may run ahead
        if event.kind == "gpu_back":
            lifecycle.end(f"xid-fallen-off-bus:gpu:{event.gpu_id}", at, "The GPU is back.")
            return None
        xid = xid_of(event)
        if xid is None or timezone.now() - at > TOO_OLD or (xid.companion and not _has_company(event)):
            return None
        found = xid_catalog.finding(
            xid,
            str(event.gpu_id),
            event.node.name,
            event.gpu.uuid,
            _total(event, xid),
            event.code if event.kind == "xid" else None,
        )
        return lifecycle.report(at, found, lifecycle.Place(event.node_id, (event.gpu.pk,)))


def xid_of(event: Event) -> Xid | None:
    """What the event says, in the catalogue's terms; None where it says nothing that a rule knows."""
    if event.kind == "gpu_lost" or "fallen off the bus" in event.text.lower():
        return xid_catalog.FALLEN
    if event.kind == "xid" and event.code is not None:
        xid = xid_catalog.BY_CODE.get(event.code)
        if xid is None:
            log.warning("XID %d on %s is in no catalogue of ours; it is kept as an event.", event.code, event.node)
        return xid
    return None


def _has_company(event: Event) -> bool:
    return (
        Event.objects.filter(
            gpu=event.gpu,
            kind="xid",
            observed_at__range=(event.observed_at - COMPANION_SPAN, event.observed_at + COMPANION_SPAN),
        )
        .exclude(code=event.code)
        .exists()
    )


def _total(event: Event, xid: Xid) -> int:
    """How many events of the same rule this GPU has reported lately, this one included."""
    codes = [one.code for one in xid_catalog.XIDS if one.rule == xid.rule]
    same = Event.objects.filter(gpu=event.gpu, kind="xid", code__in=codes, observed_at__gt=event.observed_at - RECENT)
    return max(same.count(), 1)
