"""Celery's side of findings; every task is safe to repeat and to lose."""

import logging
from datetime import timedelta
from typing import Final

from celery import shared_task
from django.utils import timezone

from fleet.findings import events
from fleet.findings.cycle import only_run
from fleet.findings.judge import judge
from fleet.inventory.models import Event

log = logging.getLogger(__name__)

ADVISE_LIMIT_S: Final = 110
SWEEP_LIMIT_S: Final = 50
SWEEP_AFTER: Final = timedelta(seconds=2)
"""Younger events are left to the task that ingest sent for them."""
SWEEP_AT_ONCE: Final = 20_000
"""Of a storm; those of one kind on one GPU are one piece of work."""


@shared_task(ignore_result=True, acks_late=True, time_limit=ADVISE_LIMIT_S)
def advise() -> None:
    """Judge the fleet's newest window, unless another run still does."""
    with only_run("advise", ADVISE_LIMIT_S + 10) as mine:
        if mine:
            judge(timezone.now().replace(microsecond=0))


@shared_task(ignore_result=True, acks_late=True, time_limit=30)
def event_arrived(event_id: int) -> None:
    """Make a finding of one event, where it asks for one."""
    event = Event.objects.select_related("node", "gpu").filter(pk=event_id, handled_at=None).first()
    if event is not None:
        events.handle([event])


@shared_task(ignore_result=True, acks_late=True, time_limit=SWEEP_LIMIT_S)
def sweep_events() -> None:
    """Handle the events that no task took, oldest first."""
    waiting = Event.objects.select_related("node", "gpu").filter(handled_at=None, received_at__lt=timezone.now() - SWEEP_AFTER)
    if not waiting.exists():
        return
    with only_run("sweep_events", SWEEP_LIMIT_S + 10) as mine:
        if mine:
            events.handle(list(waiting.order_by("received_at", "id")[:SWEEP_AT_ONCE]))
