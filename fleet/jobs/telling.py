"""What schedulers tell of their jobs, as it is written: all of a request or none, and the same told twice changes nothing."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, TypedDict

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext

from fleet.inventory.models import Gpu
from fleet.jobs.devices import Cards
from fleet.jobs.families import family_of
from fleet.jobs.holdings import Given, give, take_all
from fleet.jobs.hosts import nodes
from fleet.jobs.models import END_STATES, Job
from fleet.jobs.turns import wait_for

_KEPT: Final = (
    "source", "exit_code", "name", "user", "account", "partition", "gpus_total", "array_job_id", "restarts", "labels",
)  # fmt: skip

_FILLED: Final = tuple(name for name in _KEPT if name not in ("source", "restarts"))
"""What an end may still add to a run that has ended: neither of the others is ever empty."""
ONE_START: Final = timedelta(hours=1)
"""Starts of one run that several clocks tell differ by no more: the prologs of a job run on its nodes within minutes."""


class Told(TypedDict, total=False):
    """A start, a change or an end of one run, checked. What is left out stays as it was; without `started_at`: the newest run of the id,
    of an end the newest open one that had begun by then. Where none is open, the end of the newest stands, and only what it lacks is added.

    `started_about` tells a start by another clock than the scheduler's, a node's: several nodes of one run tell several. The newest run is
    meant where it goes on with the same `restarts` and began within ONE_START of that, or ended later than that; else a new one begins then.
    `started_at` with the same `restarts` puts such a start right.
    """

    cluster: str
    job_id: str
    started_at: datetime
    started_about: datetime
    ended_at: datetime
    source: str
    state: str
    exit_code: int
    name: str
    user: str
    account: str
    partition: str
    gpus_total: int
    array_job_id: str
    restarts: int
    labels: dict[str, str]
    allocations: Sequence[Given]


class TellJobError(Exception):
    """What was told does not fit the runs that are known; the message says which, and what to do."""


def tell(told: Sequence[Told], at: datetime) -> list[Job]:
    """The runs, in the order told; TellJobError, and nothing is written, where one does not fit. `at`: the moment of telling."""
    return [job for job, _is_new in keep(told, at)]


@transaction.atomic
def keep(told: Sequence[Told], at: datetime) -> list[tuple[Job, bool]]:
    """As `tell`, each run with whether it is new."""
    wait_for((one["cluster"], one["job_id"]) for one in told)
    cards = _cards({given["node"] for one in told for given in one.get("allocations", ())})
    kept = []
    for one in told:
        job, is_new = _run_of(one, at)
        ended_before = job.ended_at
        if _stands(job, one):
            _fill(job, one, at)
        else:
            _set(job, one, at)
        if min(job.ended_at or job.started_at, one.get("ended_at", job.started_at)) < job.started_at:
            says = gettext("The job {job} on {cluster} would end before it starts: ended_at must not lie before started_at.")
            raise TellJobError(says.format(job=job.job_id, cluster=job.cluster))
        job.save()
        if job.ended_at != ended_before:
            take_all(job, ended_before)
        held: dict[str, dict[str, bool]] = {}
        for given in one.get("allocations", ()):
            held.setdefault(given["node"], {}).update(dict.fromkeys(given["devices"], given["shared"]))
        give(job, held, cards, at)
        kept.append((job, is_new))
    return kept


def _cards(names: Iterable[str]) -> dict[str, Cards]:
    """The GPUs of each node by the name that its scheduler gives it."""
    meant = nodes(names)
    of_node: dict[int, list[Gpu]] = {}
    for gpu in Gpu.objects.filter(node__in=[node.pk for node in meant.values()]):
        of_node.setdefault(gpu.node_id, []).append(gpu)
    found = {name: meant.get(name) for name in names}
    return {name: Cards(of_node.get(node.pk, ()), node) if node is not None else Cards() for name, node in found.items()}


def _run_of(one: Told, at: datetime) -> tuple[Job, bool]:
    """The run that is meant, locked; a new one where its start is told for the first time."""
    # no_key: rows that refer to it may be written meanwhile
    runs = (
        Job.objects.select_for_update(no_key=True)
        .filter(cluster=one["cluster"], job_id=one["job_id"])
        .order_by("-started_at", "-pk")
    )
    if "started_at" in one:
        joined = _joined(runs, one)
        return (joined, False) if joined is not None else _begun(runs, one, one["started_at"], at)
    newest = runs.first()
    if "started_about" in one:
        if newest is not None and _is_it(newest, one):
            return newest, False
        if newest is not None and newest.ended_at is None and newest.restarts == one.get("restarts", newest.restarts):
            _lose(newest, one["started_about"])
        return _begun(runs, one, one["started_about"], at)
    if _is_end(one):
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

    Who does not tell `restarts` cannot be told from another run within the hour.
    """
    start = one["started_at"]
    if "restarts" not in one or runs.filter(started_at=start).exists():
        return None
    near = runs.filter(started_at__gte=start - ONE_START, started_at__lte=start + ONE_START, restarts=one["restarts"])
    job = next((job for job in near if job.ended_at is None or job.ended_at >= start), None)
    if job is not None:
        job.allocations.filter(from_at=job.started_at).update(from_at=start)
        job.started_at = start
    return job


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


def _is_it(newest: Job, one: Told) -> bool:
    """Whether a start about then is this run's: it goes on, began about then and was put back as often, or its end was told before its start."""
    if newest.ended_at is None:
        near = abs(newest.started_at - one["started_about"]) <= ONE_START
        return near and one.get("restarts", newest.restarts) == newest.restarts
    return newest.ended_at >= one["started_about"]


def _is_end(one: Told) -> bool:
    return "ended_at" in one or one.get("state") in END_STATES


def _stands(job: Job, one: Told) -> bool:
    """Whether this is one more end of a run that has ended, by one who does not know its start. `lost` was a guess."""
    return _is_end(one) and "started_at" not in one and job.ended_at is not None and job.state != "lost"


def _fill(job: Job, one: Told, at: datetime) -> None:
    """Keep of it what the run lacks."""
    for name in _FILLED:
        if name in one and getattr(job, name) in (None, "", {}):
            setattr(job, name, one[name])
    job.told_at = max(job.told_at, at)
    job.family = family_of(job)


def _set(job: Job, one: Told, at: datetime) -> None:
    for name in _KEPT:
        if name in one:
            setattr(job, name, one[name])
    job.told_at = max(job.told_at, at)
    job.family = family_of(job)
    state = one.get("state")
    if _is_end(one):
        job.ended_at = one.get("ended_at") or job.ended_at or max(at, job.started_at)
        was_told = job.state in END_STATES and job.state != "lost"
        job.state = state or (job.state if was_told else _by_exit_code(job))
    elif state is not None and (job.ended_at is None or job.state == "lost"):  # an end wins over a start that comes late
        job.state, job.ended_at = state, None


def _by_exit_code(job: Job) -> str:
    return "failed" if job.exit_code else "completed"
