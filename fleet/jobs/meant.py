"""Which run of a job is meant by what is told of it: a requeued job, and a number that is used again, is another run."""

from datetime import datetime, timedelta
from typing import Final

from django.db import connection
from django.db.models import Q, QuerySet
from django.utils.translation import gettext

from fleet.jobs.holdings import take_all
from fleet.jobs.models import Job
from fleet.jobs.signals import held_otherwise
from fleet.jobs.told import TellJobError, Told, is_end

ONE_START: Final = timedelta(hours=1)
"""Starts of one run that several clocks tell differ by no more: the prologs of a job run on its nodes within minutes."""
CLOCKS: Final = timedelta(minutes=1)
"""A node's clock may be so far behind the scheduler's, and so long do the nodes of a run take to tell its start."""
PUT_BACK: Final = timedelta(seconds=5)
"""A run that was put back into the queue begins again no sooner: Slurm waits until its credentials have expired, 2 minutes as a rule."""


def run_of(one: Told, at: datetime) -> tuple[Job, bool]:
    """The run that is meant, locked; a new one where its start is told for the first time."""
    runs = (
        Job.objects.select_for_update(no_key=True)
        .filter(cluster=one["cluster"], job_id=one["job_id"])
        .order_by("-started_at", "-pk")
    )
    if "started_at" in one or "started_about" in one:
        _one_by_one(f"{one['cluster']}/{one['job_id']}")
    if "started_at" in one:
        joined = _joined(runs, one)
        return (joined, False) if joined is not None else _begun(runs, one, one["started_at"], at)
    newest = runs.first()
    if "started_about" in one:
        if newest is not None and _is_it(newest, one):
            return newest, False
        if newest is not None and newest.ended_at is None and _same_count(newest, one):
            _lose(newest, one["started_about"])
        return _begun(runs, one, one["started_about"], at)
    if is_end(one):
        newest = _ending(runs, one) or newest
    if newest is None:
        says = gettext("No run of the job {job} on {cluster} is known: send started_at, when it was given its GPUs.")
        raise TellJobError(says.format(job=one["job_id"], cluster=one["cluster"]))
    return newest, False


def _begun(runs: QuerySet[Job], one: Told, start: datetime, at: datetime) -> tuple[Job, bool]:
    defaults = {"source": one.get("source", "api"), "told_at": at}
    return runs.get_or_create(cluster=one["cluster"], job_id=one["job_id"], started_at=start, defaults=defaults)


def _joined(runs: QuerySet[Job], one: Told) -> Job | None:
    """The run of this start: the one that has it, or one with the same count of restarts that began about then, which has it from now on.

    A run whose count nobody told is it where its start, by a node's clock, can be that of no earlier run: the nearest of them.
    Who does not tell `restarts` cannot be told from another run within the hour.
    """
    start = one["started_at"]
    if "restarts" not in one or runs.filter(started_at=start).exists():
        return None
    alike = Q(restarts=one["restarts"]) | Q(restarts=None)
    near = runs.filter(alike, started_at__gte=start - ONE_START, started_at__lte=start + ONE_START)
    fits = [
        job for job in near if (job.ended_at is None or job.ended_at >= start) and (job.restarts is not None or _began(job, one))
    ]
    job = min(fits, key=lambda job: (job.restarts is None, abs(job.started_at - start)), default=None)
    if job is not None:
        job.allocations.filter(from_at=job.started_at).update(from_at=start)
        first, last = sorted((job.started_at, start))
        held_otherwise.send(Job, job=job.pk, since=first, until=last, gpus=())
        job.started_at = start
    return job


def _began(job: Job, one: Told) -> bool:
    """Whether the run's start by a node's clock can be this one: it is told when the run has begun, and before it ends."""
    behind = CLOCKS if one["restarts"] == 0 else PUT_BACK
    return job.started_at >= one["started_at"] - behind and job.started_at <= one.get("ended_at", job.started_at) + CLOCKS


def _lose(job: Job, start: datetime) -> None:
    """End a run whose end nobody told, at the start of the next one of its id."""
    if start < job.started_at:
        says = gettext(
            "A run of the job {job} on {cluster} goes on that began over an hour after started_about: check the node's clock."
        )
        raise TellJobError(says.format(job=job.job_id, cluster=job.cluster))
    job.state, job.ended_at = "lost", start
    job.save()
    take_all(job, None)


def lose_earlier(job: Job) -> None:
    """End, at this run's start, the runs of the same id before it whose end nobody told."""
    before = Job.objects.select_for_update(no_key=True).filter(cluster=job.cluster, job_id=job.job_id, ended_at=None)
    for earlier in before.filter(started_at__lt=job.started_at).order_by("started_at", "pk"):
        _lose(earlier, job.started_at)


def over_by_next(job: Job) -> None:
    """Let a run that nobody ended be over where the next one of its id begins, whichever was told first."""
    if job.ended_at is None:
        same = Job.objects.filter(cluster=job.cluster, job_id=job.job_id).exclude(pk=job.pk)  # whose start may be another by now
        later = same.filter(started_at__gt=job.started_at).order_by("started_at")
        start = later.values_list("started_at", flat=True).first()
        if start is not None:
            job.state, job.ended_at = "lost", start


def _ending(runs: QuerySet[Job], one: Told) -> Job | None:
    """The run that ends: one that is open, unless this very end, or a later one, was told of a run that no open one had followed by then."""
    still = runs.filter(ended_at=None)
    if "ended_at" not in one:
        return still.first()
    end = one["ended_at"]
    same = runs.filter(ended_at=end).first()
    by_then = runs.filter(started_at__lte=end)
    over = by_then.filter(ended_at__gte=end)
    return same or still.filter(started_at__lte=end).first() or over.first() or still.first() or by_then.first()


def _one_by_one(job: str) -> None:
    """Let those who tell of this job begin it one after the other: PostgreSQL locks no row that is not there yet, SQLite has one writer."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [job])


def _is_it(newest: Job, one: Told) -> bool:
    """Whether a start about then is this run's: it goes on, began about then and was put back as often, or its end was told before its start."""
    if newest.ended_at is not None:
        return newest.ended_at >= one["started_about"]
    if abs(newest.started_at - one["started_about"]) > ONE_START or not _same_count(newest, one):
        return False
    return (newest.restarts is not None and "restarts" in one) or not _begins_again(newest, one)


def _same_count(job: Job, one: Told) -> bool:
    """Whether both were put back as often, as far as it was told."""
    return job.restarts is None or one.get("restarts", job.restarts) == job.restarts


def _begins_again(job: Job, one: Told) -> bool:
    """Whether a node that told of this run's devices tells a later start: a prolog runs once on each node of a run."""
    if one["started_about"] <= job.started_at + CLOCKS:
        return False  # the same told again
    nodes = {given["node"].lower() for given in one.get("allocations", ())}
    return any(name.lower() in nodes for name in job.allocations.values_list("node_name", flat=True))
