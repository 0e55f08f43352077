"""What is told again: alerts that nobody acknowledged, to their route once more or to another; and what a silence kept back, once it ends."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import uuid4

from django.db import transaction
from django.db.models import Max, Min, Q, QuerySet
from django.utils import timezone

from fleet.findings.models import Transition
from fleet.notify import acknowledging
from fleet.notify.matchers import Labels
from fleet.notify.models import Delivery, Route
from fleet.notify.quieting import FIRES
from fleet.notify.routing import quiet_now
from fleet.notify.waiting import Waiting

AT_ONCE: Final = 1000
_FINAL: Final = ('["over"', '["beginning_untold"', '["acknowledged"', '["route_off"')
"""Reasons that do not pass."""


def recur(now: datetime | None = None) -> int:
    """Let wait what is to be told again; how many deliveries that are. What waits leaves with its group (routing.release)."""
    now = now or timezone.now()
    with transaction.atomic():
        return _unmuted(now) + sum(_repeated(route, now) + _escalated(route, now) for route in Route.objects.filter(enabled=True))


def _unmuted(now: datetime) -> int:
    """What was kept quiet, still fires, and is kept quiet by nothing any more."""
    rows = _of_firing(Delivery.objects.filter(state="muted", kind="news", route__enabled=True))
    for reason in _FINAL:
        rows = rows.exclude(why_muted__startswith=reason)
    about = ("transition__finding__node", "transition__finding__cause", "route", "group")
    muted = list(rows.select_related(*about).order_by("pk")[:AT_ONCE])
    if not muted:
        return 0
    for row in muted:
        row.state = "waiting"
    told = _wait(muted, quiet_now(muted, now), now)
    Delivery.objects.bulk_update(told, ["state", "why_muted", "group"], batch_size=200)
    return len(told)


def _repeated(route: Route, now: datetime) -> int:
    """Alerts that the route told last longer ago than it repeats after."""
    if route.repeat_every_s is None:
        return 0
    told = _of_firing(Delivery.objects.filter(route=route)).exclude(state__in=("muted", "dead"))
    newest = told.values("transition__finding").annotate(newest=Max("released_at"), waiting=Min("pk", filter=Q(released_at=None)))
    late = newest.filter(newest__lte=now - timedelta(seconds=route.repeat_every_s), waiting=None)[:AT_ONCE]
    return _again(route, [one["transition__finding"] for one in late], "repeat", now)


def _escalated(route: Route, now: datetime) -> int:
    """Alerts that the route told, and that nobody acknowledged in time, to the route that it escalates to."""
    target = route.escalate_to
    if route.escalate_after_s is None or target is None or not target.enabled:
        return 0
    told = _of_firing(
        Delivery.objects.filter(route=route, kind="news", state__in=("sent", "failed", "dead", "sending", "pending"))
    )
    first = told.values("transition__finding").annotate(first=Min("released_at"))
    late = [
        one["transition__finding"] for one in first.filter(first__lte=now - timedelta(seconds=route.escalate_after_s))[:AT_ONCE]
    ]
    return _again(target, late, "escalation", now)


def _again(route: Route, findings: Sequence[int], kind: str, now: datetime) -> int:
    """Another delivery of each finding's newest alert to the route, unless somebody looks after it; of an escalation only the first."""
    asked = set(findings) - acknowledging.acknowledged(findings)
    newest: dict[int, Transition] = {}
    about = ("finding__node", "finding__cause")
    firing = Transition.objects.filter(finding__in=asked, axis="condition", after__in=FIRES).select_related(*about)
    for transition in firing.order_by("at", "pk"):
        newest[transition.finding_id] = transition
    before = dict(
        Delivery.objects.filter(route=route, kind=kind, transition__in=list(newest.values()))
        .values_list("transition_id")
        .annotate(newest=Max("round"))
    )
    made = [
        Delivery(route=route, transition=one, kind=kind, round=before.get(one.pk, -1) + 1, key=uuid4().hex, state="waiting")
        for one in newest.values()
        if kind == "repeat" or one.pk not in before
    ]
    told = _wait(made, quiet_now(made, now), now)
    Delivery.objects.bulk_create(told, batch_size=200)
    return len(told)


def _of_firing(deliveries: QuerySet[Delivery]) -> QuerySet[Delivery]:
    """Those about alerts that fire now."""
    return deliveries.filter(
        transition__axis="condition",
        transition__after__in=FIRES,
        transition__finding__resolved_at=None,
        transition__finding__condition__in=FIRES,
        transition__finding__shadow=False,
    )


def _wait(rows: Sequence[Delivery], labels: Mapping[int, Labels], now: datetime) -> list[Delivery]:
    """Those of the rows that nothing keeps quiet, in their groups, which leave as soon as their routes take them."""
    told = [row for row in rows if row.state == "waiting"]
    waiting = Waiting(now)
    for row in told:
        row.why_muted = ""
        waiting.hurry(row, labels[row.transition.finding_id])
    waiting.write()
    return told
