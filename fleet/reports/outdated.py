"""Summaries that were final, of jobs of which something else was told later."""

from collections.abc import Collection
from datetime import datetime

from django.db.models import Q
from django.utils import timezone

from fleet.jobs.models import Allocation
from fleet.reports.models import JobSummary
from fleet.reports.summaries import SETTLED

_IN_ONE_QUERY = 500


def held_otherwise(job: int, since: datetime, until: datetime | None, gpus: Collection[int], **_: object) -> None:
    """Let the summaries of the job, and of those that held the same GPUs at that time, be made anew.

    What began after the newest final summary's job had ended concerns none: so it is of nearly all that schedulers tell.
    """
    now = timezone.now()
    if since > now - SETTLED:
        return
    mine = Allocation.objects.filter(job=job, gpu__isnull=False).values("gpu")
    beside = Allocation.objects.filter(Q(until_at=None) | Q(until_at__gt=since))
    if until is not None:
        beside = beside.filter(from_at__lt=until)
    listed = sorted(gpus)
    concerned = Q(job=job) | Q(job__in=beside.filter(gpu__in=mine).values("job"))
    for first in range(0, len(listed), _IN_ONE_QUERY):
        concerned |= Q(job__in=beside.filter(gpu__in=listed[first : first + _IN_ONE_QUERY]).values("job"))
    JobSummary.objects.filter(concerned, due_at=None).update(due_at=now)
