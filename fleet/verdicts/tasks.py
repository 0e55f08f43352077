"""Celery's side of verdicts; safe to repeat and to lose."""

import logging
from datetime import datetime
from typing import Final

from celery import shared_task
from django.utils import timezone

from fleet.findings.cycle import only_run
from fleet.findings.models import Cycle
from fleet.store.series import StoreError
from fleet.verdicts import recovered, seen, waiting
from fleet.verdicts.measuring import AT_ONCE, measure
from fleet.verdicts.models import Verification

log = logging.getLogger(__name__)

LIMIT_S: Final = 110


@shared_task(ignore_result=True, acks_late=True, time_limit=LIMIT_S)
def verify() -> None:
    """Look for advice that was applied, and measure what waits, unless another run still does. A store that fails is said once."""
    failed_before = Cycle.objects.filter(name="verify", error__startswith=StoreError.__name__).exists()
    try:
        with only_run("verify", LIMIT_S + 10) as mine:
            if mine:
                go_on(timezone.now())
    except StoreError as error:
        if not failed_before:
            log.error("Verdicts on advice wait: the store cannot be read: %s", error)
    else:
        if failed_before and mine:
            log.info("Verdicts on advice are measured again.")


def go_on(now: datetime) -> None:
    """One round: what was applied becomes rows, rows that wait are tried, the oldest first, GPU-hours are counted."""
    waiting.begin(now)
    seen.look(now)
    for row in Verification.objects.filter(verdict="").select_related("finding__node").order_by("due_at", "pk")[:AT_ONCE]:
        measure(row, now)
    recovered.recount(now)
