"""From one delivery to its end: handed out, claimed, sent, noted; each step is one transaction or one conditional update."""

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import BooleanField, Case, F, Q, Value, When, Window
from django.db.models.functions import RowNumber
from django.utils import timezone
from django.utils.translation import gettext

from fleet.notify import deliver
from fleet.notify.message import message
from fleet.notify.models import Delivery
from fleet.notify.outcome import fields

CLAIM: Final = timedelta(minutes=3)
"""A claim older than this belongs to a worker that died: longer than a task may run."""
FIRST_WAIT_S: Final = 5.0
LONGEST_WAIT_S: Final = 900.0
LANES: Final = 2
"""Deliveries of one route under way at once: a chat that hangs holds so many messengers and no more."""
QUEUED: Final = timedelta(seconds=60)
"""How long a message to the messengers lives. What was handed out longer ago was lost on the way and is handed out again."""


def due(now: datetime) -> Q:
    """Deliveries that a worker may claim: those whose time has come, and those whose worker died; of a message, the lead."""
    ready = Q(state__in=("pending", "failed"), next_try_at__lte=now) | Q(state="sending", claimed_at__lt=now - CLAIM)
    return ready & Q(lead=None)


def take() -> list[int]:
    """The deliveries to hand to messengers now, oldest first, noted as handed out; no more of one route than it has lanes."""
    now = timezone.now()
    lost = Q(queued_at=None) | Q(queued_at__lt=now - QUEUED)
    waiting = Delivery.objects.filter(due(now) & lost)
    if not waiting.exists():
        return []
    queued = Q(state__in=("pending", "failed", "sending"), queued_at__gte=now - QUEUED)
    under_way = Q(state="sending", claimed_at__gte=now - CLAIM) | queued
    busy = Counter(Delivery.objects.filter(under_way, lead=None).values_list("route_id", flat=True))
    in_line = Window(RowNumber(), partition_by=F("route_id"), order_by=(F("next_try_at").asc(), F("pk").asc()))
    first = waiting.annotate(in_line=in_line).filter(in_line__lte=LANES).order_by("next_try_at", "pk")
    return [
        pk
        for pk, route_id, place in first.values_list("pk", "route_id", "in_line")
        if place + busy[route_id] <= LANES and waiting.filter(pk=pk).update(queued_at=now)
    ]


def put_back(delivery_id: int) -> None:
    """Note that a delivery was not handed out after all."""
    Delivery.objects.filter(pk=delivery_id).update(queued_at=None)


def attempt(delivery_id: int) -> str:
    """Claim a delivery, send it, note the result; its new state, or "" when it was not ours to claim."""
    now = timezone.now()
    claimed = Delivery.objects.filter(due(now), pk=delivery_id).update(
        state="sending",
        queued_at=None,
        claimed_at=now,
        attempts=F("attempts") + 1,
        # Whoever held the claim before may have sent it and died before noting so.
        may_repeat=Case(When(state="sending", then=Value(True)), default=F("may_repeat"), output_field=BooleanField()),
    )
    if not claimed:
        return ""
    delivery = Delivery.objects.select_related("route", "transition__finding__node").get(pk=delivery_id)
    if not delivery.route.enabled:
        return _note(delivery, state="dead", error="The route was switched off.")
    outcome = deliver.send(delivery.route.url, message(delivery), delivery.arrived)
    if outcome.failure == "limited":
        hold_back(delivery, timedelta(seconds=outcome.retry_after_s or FIRST_WAIT_S))
    return _note(delivery, **fields(outcome, delivery, wait))


def hold_back(delivery: Delivery, pause: timedelta) -> None:
    """Let the other messages of the route wait too: its target takes nothing meanwhile, and each refusal may prolong that."""
    until = timezone.now() + pause
    others = Delivery.objects.filter(route=delivery.route, state__in=("pending", "failed"), lead=None, next_try_at__lt=until)
    others.exclude(pk=delivery.pk).update(next_try_at=until)


def wait(attempts: int) -> timedelta:
    """How long to wait after so many attempts: doubling, up to a quarter of an hour, a random half of it taken off."""
    longest = min(FIRST_WAIT_S * 2 ** (attempts - 1), LONGEST_WAIT_S)
    return timedelta(seconds=longest * random.uniform(0.5, 1))  # noqa: S311 - spreads load, guards nothing


def _note(delivery: Delivery, state: str, **result: object) -> str:
    """Store the result, unless the claim has passed to another worker meanwhile; the same for whom the message told of too."""
    mine = Delivery.objects.filter(pk=delivery.pk, state="sending", attempts=delivery.attempts)
    with transaction.atomic():
        if not mine.update(state=state, **result):
            return ""
        Delivery.objects.filter(lead=delivery.pk).update(state=state, attempts=delivery.attempts, **result)
    return state


class SendError(Exception):
    """It cannot be sent again; the message says why."""


def again(delivery: Delivery) -> None:
    """Let a dead letter be tried anew, with all its attempts, and those whom its message tells of with it. SendError when it is not dead."""
    fresh = {"state": "pending", "attempts": 0, "next_try_at": timezone.now(), "queued_at": None, "error": ""}
    with transaction.atomic():
        lead = delivery.lead_id or delivery.pk
        if not Delivery.objects.filter(pk=lead, state="dead", lead=None).update(**fresh):
            raise SendError(gettext("The delivery is not dead; there is nothing to send again."))
        Delivery.objects.filter(lead=lead).update(**fresh)
