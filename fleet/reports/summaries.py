"""Which reports are kept, when they are made anew, and which one answers."""

import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import F, Q

from fleet.jobs.models import Job
from fleet.reports import document
from fleet.reports.models import JobSummary
from fleet.store import clock
from fleet.store.series import StoreError

SOON: Final = timedelta(minutes=2)
"""A job that runs for so long gets its first summary, and one that ended gets its own then."""
SETTLED: Final = timedelta(minutes=15)
"""After its end: agents that were cut off have sent what they kept by then, or send it much later."""
EVERY: Final = timedelta(minutes=5)
GROWN: Final = 0.02
"""Of its time, after which the summary of a job that runs is made anew."""
FRESH: Final = timedelta(seconds=60)
QUICK_GPUS: Final = 64
"""The report of a larger job is made by the task alone: a page would wait for it."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report and when it was made. `final`: it is not made anew; `aged_out`: the store has nothing of the job any more.

    `outdated_since`: since when it is known that the job held something else than it says; None: it does not.
    """

    document: dict[str, Any]
    made_at: datetime
    final: bool
    aged_out: bool
    outdated_since: datetime | None = None


def report(job: Job, at: datetime) -> Report:
    """The job's report: the one that is kept where it is final, fresh, or of a large job; else one made of the store, which is kept then.

    A report that finds less telemetry than the kept one of an ended job does not answer in its place. StoreError when nothing is kept
    and the store cannot be read.
    """
    row = JobSummary.objects.filter(job=job).first()
    if row is None:
        row = keep(job, at)
    elif row.due_at is not None and at - row.made_at >= FRESH and row.document["gpus"] <= QUICK_GPUS:
        with suppress(StoreError):  # what is kept answers meanwhile
            row = keep(job, at)
    final = row.due_at is None
    return Report(row.document, row.made_at, final, final and aged_out(row.document, job), row.outdated_since)


def keep(job: Job, at: datetime) -> JobSummary:
    """Make the job's report anew and keep it, but where an ended job's telemetry has become less since. StoreError likewise.

    Where the job held something else than the kept report says, that one goes, unless the telemetry has aged out: then it stays and says so.
    """
    row = JobSummary.objects.filter(job=job).first()
    made = document.document(job, at, row.document if row is not None else None)
    due = _due(job, at)
    if row is not None and job.ended_at is not None:
        is_other = _is_other(row.document, made)
        less = made["coverage"] < row.coverage - 1e-6 and row.document["until"] >= made["until"]
        if aged_out(row.document, job) if is_other else less:
            row.due_at, row.outdated_since = due, row.outdated_since or (at if is_other else None)
            row.save(update_fields=["due_at", "outdated_since"])
            return row
    fields = {
        "made_at": at,
        "due_at": due,
        "outdated_since": None,
        "document": made,
        "bottleneck": made["bottleneck"],
        "gpu_hours": made["gpu_hours"],
        "idle_gpu_hours": made["idle_gpu_hours"],
        "energy_j": made["energy_j"],
        "coverage": made["coverage"],
    }
    return JobSummary.objects.update_or_create(job=job, defaults=fields)[0]


def _is_other(kept: dict[str, Any], made: dict[str, Any]) -> bool:
    """True where the two are not of the same devices at the same times; of one of before these were kept, by how long they were held."""
    if "held" in kept:
        return bool(kept["held"] != made["held"])
    return any(kept[name] != made[name] for name in ("since", "until", "gpu_hours", "shared_gpu_hours", "unknown_gpu_hours"))


def _due(job: Job, at: datetime) -> datetime | None:
    if job.ended_at is None:
        return at + max(EVERY, GROWN * (at - job.started_at))
    settled = job.ended_at + SETTLED
    return settled if at < settled else None


def due(at: datetime) -> list[int]:
    """The jobs whose summary is to be made now: those that ended first, then those that wait longest."""
    none = Q(summary=None, started_at__lt=at - SOON) | Q(summary=None, ended_at__lt=at)
    ended = Q(summary__due_at__isnull=False, ended_at__isnull=False, ended_at__gt=at - SETTLED - timedelta(days=1))
    waiting = Q(summary__due_at__lte=at) | none
    over = [
        pk for pk, made, end in Job.objects.filter(ended).values_list("pk", "summary__made_at", "ended_at") if end and made < end
    ]
    rest = (
        Job.objects.filter(waiting)
        .exclude(pk__in=over)
        .order_by(F("summary__due_at").asc(nulls_first=True), "pk")
        .values_list("pk", flat=True)[:1000]
    )
    return [*over, *rest]


def summarise(at: datetime, budget_s: float) -> int:
    """How many summaries were made within so many seconds. StoreError when the store cannot be read."""
    until = time.monotonic() + budget_s
    made = 0
    for pk in due(at):
        if time.monotonic() >= until:
            break
        job = Job.objects.filter(pk=pk).first()
        if job is not None:
            keep(job, at)
            made += 1
    return made


def aged_out(kept: dict[str, Any], job: Job) -> bool:
    """True where readings of the job were in the store once, and none is any more."""
    if not kept["coverage"]:
        return False
    first = job.allocations.filter(gpu__isnull=False).order_by("pk").first()
    if first is None or first.gpu_id is None:
        return True
    start, end = int(kept["since"]), int(kept["until"])
    step_s = max(60, (end - start) // 60)
    try:
        return clock.series("gpu", first.gpu_id, ("power_w",), start, end, step_s).is_empty()
    except StoreError:
        return False
