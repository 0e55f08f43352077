"""Celery's side of reports; safe to repeat and to lose."""

import logging
from typing import Final

from celery import shared_task
from django.utils import timezone

from fleet.findings.cycle import only_run
from fleet.findings.models import Cycle
from fleet.reports.summaries import summarise
from fleet.store.series import StoreError

log = logging.getLogger(__name__)

LIMIT_S: Final = 110
BUDGET_S: Final = 25.0
"""The longest that one run makes summaries; the next one goes on."""


@shared_task(ignore_result=True, acks_late=True, time_limit=LIMIT_S)
def summarise_jobs() -> None:
    """Make the summaries that are due, unless another run still does. A store that fails is said once."""
    failed_before = Cycle.objects.filter(name="summarise_jobs", error__startswith=StoreError.__name__).exists()
    try:
        with only_run("summarise_jobs", LIMIT_S + 10) as mine:
            if mine:
                summarise(timezone.now(), BUDGET_S)
    except StoreError as error:
        if not failed_before:
            log.error("Reports of jobs cannot be made, for the store cannot be read: %s", error)
    else:
        if failed_before and mine:
            log.info("Reports of jobs are made again.")
