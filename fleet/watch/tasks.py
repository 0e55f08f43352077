"""Celery's side of the watch; safe to repeat and to lose."""

from typing import Final

from celery import shared_task
from django.utils import timezone

from fleet.findings.cycle import only_run
from fleet.watch import look

LIMIT_S: Final = 50


@shared_task(ignore_result=True, acks_late=True, time_limit=LIMIT_S)
def watch() -> None:
    """Look at the fleet once, unless another run still does."""
    with only_run("watch", LIMIT_S + 10) as mine:
        if mine:
            look.look(timezone.now())
