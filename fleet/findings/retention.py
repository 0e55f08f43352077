"""What is deleted in the end: rows that no open finding needs any more, after as many days as the site keeps them."""

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import F, Q, QuerySet

from fleet.annotations.models import Annotation
from fleet.benches.models import BenchRun
from fleet.findings.models import Diagnosis, Finding
from fleet.inventory.models import Absence, Engine, Event, Process
from fleet.jobs.models import Allocation, Job
from fleet.profiles.models import JobProfile
from fleet.slow.models import JobRun

CHUNK: Final = 500
"""Rows in one transaction: others wait for its lock."""
BUDGET_S: Final = 20.0
"""The longest that one run deletes; the next one goes on."""

NO_WORK: Final = 0.99
"""Share of idle GPU-hours from which a job that only processes showed did no work."""
ANNOTATION_OVER: Final = timedelta(days=1)
"""An annotation that counts no more stays so long for people to see."""


def forget(now: datetime) -> dict[str, int]:
    """Delete what is past its time; how many rows of each kind went, those that went along with them left out.

    Resolved findings go with their transitions and deliveries. Open findings, open absences and events that nobody has
    handled yet stay, however old. What a job held goes once its report is final; jobs and reports stay, unless the site says otherwise.
    """
    until = time.monotonic() + BUDGET_S
    gone = {name: _delete(rows, until) for name, rows in _past(now).items()}
    return {name: number for name, number in gone.items() if number}


def _past(now: datetime) -> Mapping[str, QuerySet[Any]]:
    finding_end = now - timedelta(days=settings.FETTLE_RETAIN_FINDINGS_D)
    event_end = now - timedelta(days=settings.FETTLE_RETAIN_EVENTS_D)
    engine_end = min(event_end, now - timedelta(days=settings.FETTLE_RETAIN_1H_D))  # its id is the key of its readings
    return {
        "sessions": Session.objects.filter(expire_date__lt=now),
        "events": Event.objects.filter(handled_at__lt=event_end, received_at__lt=event_end),
        "absences": Absence.objects.filter(until__lt=event_end),
        "processes": Process.objects.filter(last_seen_at__lt=event_end),
        "engines": Engine.objects.filter(last_seen_at__lt=engine_end),
        "runs": JobRun.objects.filter(last_seen__lt=event_end),
        "annotations": Annotation.objects.filter(
            Q(until__lt=now - ANNOTATION_OVER) | Q(until=None, at__lt=event_end, scope__in=("job", "service"))
        ),
        "diagnoses": Diagnosis.objects.filter(window_end__lt=event_end),
        "bench runs": BenchRun.objects.filter(received_at__lt=finding_end),
        "profiles": JobProfile.objects.filter(received_at__lt=finding_end),
        "findings": Finding.objects.filter(resolved_at__lt=finding_end),
        **_of_jobs(now),
    }


def _of_jobs(now: datetime) -> Mapping[str, QuerySet[Any]]:
    """Runs of a job are forgotten by themselves; a job goes after them, for they say how it ended. Reports are rows of `summary`."""
    held_end = now - timedelta(days=settings.FETTLE_RETAIN_ALLOCATIONS_D)
    nothing = Q(summary=None) | Q(summary__coverage=0) | Q(summary__idle_gpu_hours__gte=NO_WORK * F("summary__gpu_hours"))
    found: dict[str, QuerySet[Any]] = {
        "allocations": Allocation.objects.filter(
            job__ended_at__lt=held_end, until_at__lt=held_end, job__summary__isnull=False, job__summary__due_at=None
        ),
        "jobs without work": Job.objects.filter(nothing, source="processes", ended_at__lt=held_end, runs=None),
    }
    if settings.FETTLE_RETAIN_JOBS_D:
        job_end = now - timedelta(days=settings.FETTLE_RETAIN_JOBS_D)
        found["jobs"] = Job.objects.filter(ended_at__lt=job_end, runs=None)
    return found


def _delete(rows: QuerySet[Any], until: float) -> int:
    gone = 0
    while time.monotonic() < until:
        keys = list(rows.order_by("pk").values_list("pk", flat=True)[:CHUNK])
        if not keys:
            break
        with transaction.atomic():
            rows.model._default_manager.filter(pk__in=keys).delete()
        gone += len(keys)
    return gone
