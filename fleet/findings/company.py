"""XIDs that belong to a stronger fault of the same GPU: told with it, as one alert, whichever arrives first."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Q
from django.utils import timezone

from advisor import xid_catalog, xid_companions
from fleet.findings.book import SET_BACK
from fleet.findings.models import Finding
from fleet.inventory.models import Event

SPAN: Final = timedelta(seconds=xid_companions.SPAN_S)
"""How near to another fault an event must be to count as part of it."""
MOST: Final = 2_000
"""Of a storm; the sweep takes the rest."""
_CODES: Final[dict[str, tuple[int, ...]]] = {
    rule: tuple(xid.code for xid in xid_catalog.XIDS if xid.rule == rule) for rule in xid_companions.STRENGTH
}


def leader(event: Event, at: datetime) -> Finding | None:
    """The finding of a stronger fault that an XID of the moment `at` belongs to, open or, for what arrives late, over; None for none."""
    rules = xid_companions.stronger(event.code) if event.kind == "xid" and event.gpu_id is not None else ()
    if not rules:
        return None
    still = Q(resolved_at=None, last_seen_at__gte=at - SPAN) | Q(resolved_at__gte=at, resolved_at__lte=timezone.now() + SET_BACK)
    fingerprints = [f"{rule}:gpu:{event.gpu_id}" for rule in rules]
    found = Finding.objects.filter(still, fingerprint__in=fingerprints, opened_at__lte=at + SPAN)
    return min(found, key=lambda one: (one.resolved_at is not None, xid_companions.strength(one.rule)), default=None)


def ahead(event: Event) -> list[Event]:
    """The events of stronger faults near this one that nobody has handled yet: they go first, so that this one can join them."""
    rules = xid_companions.stronger(event.code) if event.kind == "xid" and event.gpu_id is not None else ()
    if not rules:
        return []
    codes = [code for rule in rules for code in _CODES[rule]]
    kinds = Q(kind="xid", code__in=codes)
    if xid_catalog.FALLEN.rule in rules:
        kinds |= Q(kind="gpu_lost")
    near = Event.objects.filter(
        kinds, gpu=event.gpu, handled_at=None, observed_at__range=(event.observed_at - SPAN, event.observed_at + SPAN)
    )
    return list(near.select_related("node", "gpu").order_by("observed_at", "id")[:MOST])


def followers(event: Event, rule: str) -> list[Event]:
    """The events just before this one that opened nothing because they only follow others: now it is known what they followed."""
    codes = [
        xid.code for xid in xid_catalog.XIDS if xid.companion and (xid.rule == rule or rule in xid_companions.stronger(xid.code))
    ]
    before = (event.observed_at - SPAN, event.observed_at)
    return list(
        Event.objects.filter(
            kind="xid", code__in=codes, gpu=event.gpu, handled_at__isnull=False, observed_at__range=before
        ).exclude(pk=event.pk)
    )


def over_at(event: Event, rule: str, now: datetime) -> datetime | None:
    """When the trouble of an event that arrived late was over, as far as is known now; None where it may last."""
    health = xid_catalog.BY_RULE.get(rule)
    if event.gpu_id is None or health is None:
        return None
    if rule == xid_catalog.FALLEN.rule:
        later = Event.objects.filter(gpu=event.gpu, kind="gpu_back", observed_at__gte=event.observed_at, observed_at__lte=now)
        back: datetime | None = later.order_by("observed_at").values_list("observed_at", flat=True).first()
        if back is not None:
            return back
    quiet_until = event.observed_at + timedelta(seconds=health.quiet_s)
    return quiet_until if quiet_until <= now else None


def in_order(groups: Iterable[Sequence[Event]]) -> list[Sequence[Event]]:
    """The groups, each of one GPU and kind, as they are to be handled: in time, but stronger faults before weaker ones between two returns
    of the GPU: one that was lost and came back is back."""
    of_gpu: dict[tuple[int, int | None], list[Sequence[Event]]] = defaultdict(list)
    for group in sorted(groups, key=lambda group: group[-1].observed_at):
        of_gpu[group[-1].node_id, group[-1].gpu_id].append(group)
    found: list[Sequence[Event]] = []
    for mine in of_gpu.values():
        returns = 0
        keyed = []
        for group in mine:
            returns += group[-1].kind == "gpu_back"
            keyed.append(((returns, group[-1].kind != "gpu_back", _strength(group[-1])), group))
        found += [group for _, group in sorted(keyed, key=lambda one: one[0])]
    return found


def _strength(event: Event) -> int:
    if event.kind != "xid" or event.code is None:
        return 0
    xid = xid_catalog.BY_CODE.get(event.code)
    return len(xid_companions.STRENGTH) + 1 if xid is None else xid_companions.strength(xid.rule)
