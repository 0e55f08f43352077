"""Celery's side of findings; every task is safe to repeat and to lose."""

import logging
from datetime import timedelta
from typing import Final

from celery import shared_task
from django.conf import settings
from django.utils import timezone

from fleet.findings import events, retention, trials
from fleet.findings.cycle import only_run
from fleet.findings.judge import judge
from fleet.findings.models import Cycle
from fleet.inventory.models import Event
from fleet.jobs import kubernetes
from fleet.slow.refresh import refresh
from fleet.store.series import StoreError
from fleet.tuning.models import Trial

log = logging.getLogger(__name__)

ADVISE_LIMIT_S: Final = 110
SWEEP_LIMIT_S: Final = 50
FORGET_LIMIT_S: Final = 60
REFRESH_LIMIT_S: Final = 100
TRY_LIMIT_S: Final = 110
SWEEP_AFTER: Final = timedelta(seconds=2)
"""Younger events are left to the task that ingest sent for them."""
SWEEP_AT_ONCE: Final = 20_000
"""Of a storm; those of one kind on one GPU are one piece of work."""


@shared_task(ignore_result=True, acks_late=True, time_limit=ADVISE_LIMIT_S)
def advise() -> None:
    """Judge the fleet's newest window, unless another run still does. A store that fails is said once, and once when it is back."""
    failed_before = Cycle.objects.filter(name="advise", error__startswith=StoreError.__name__).exists()
    try:
        with only_run("advise", ADVISE_LIMIT_S + 10) as mine:
            if mine:
                judge(timezone.now().replace(microsecond=0))
    except StoreError as error:
        if not failed_before:
            log.error("The advisor cannot read the store, and tries again every %d s: %s", settings.FETTLE_ADVISOR_EVERY_S, error)
    else:
        if failed_before and mine:
            log.info("The advisor reads the store again.")


@shared_task(ignore_result=True, acks_late=True, time_limit=REFRESH_LIMIT_S)
def refresh_slow() -> None:
    """Make the features anew that do not come from the last minutes, unless another run still does. A store that fails is said once."""
    failed_before = Cycle.objects.filter(name="refresh_slow", error__startswith=StoreError.__name__).exists()
    try:
        with only_run("refresh_slow", REFRESH_LIMIT_S + 10) as mine:
            if mine:
                refresh(timezone.now())
    except StoreError as error:
        if not failed_before:
            log.error("Runs of jobs and means over days cannot be read from the store and stay unknown meanwhile: %s", error)
    else:
        if failed_before and mine:
            log.info("Runs of jobs and means over days are read again.")


@shared_task(ignore_result=True, acks_late=True, time_limit=FORGET_LIMIT_S)
def forget() -> None:
    """Delete what is older than the site keeps, and give up jobs of which nobody will tell an end; what is left at the end of a run is taken by the next."""
    with only_run("forget", FORGET_LIMIT_S + 10) as mine:
        if mine and (gone := retention.forget(timezone.now())):
            log.info("Past their time and deleted: %s.", ", ".join(f"{number} {name}" for name, number in gone.items()))
        if mine and (lost := kubernetes.give_up(timezone.now())):
            log.info("%d jobs of nodes that have been silent for long are lost.", lost)


@shared_task(ignore_result=True, acks_late=True, time_limit=TRY_LIMIT_S)
def try_rules() -> None:
    """Go on for a few seconds with the trial of an own rule, where one is under way."""
    if not Trial.objects.filter(ended_at=None).exists():
        return
    with only_run("try_rules", TRY_LIMIT_S + 10) as mine:
        if mine:
            trials.go_on()


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
