"""What schedulers tell of their jobs, as it is written: all of a request or none, and the same told twice changes nothing."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, TypedDict

from django.db import connection, transaction
from django.utils.translation import gettext

from fleet.inventory.models import Gpu
from fleet.jobs.devices import Cards
from fleet.jobs.families import family_of
from fleet.jobs.holdings import Given, give, take_all
from fleet.jobs.hosts import nodes
from fleet.jobs.models import END_STATES, Job

_KEPT: Final = (
    "source", "exit_code", "name", "user", "account", "partition", "gpus_total", "array_job_id", "restarts", "labels",
)  # fmt: skip


class Told(TypedDict, total=False):
    """A start, a change or an end of one run, checked. What is left out stays as it was; without `started_at`: the newest run of the id,
    of an end the newest that had begun by then.

    `started_about` tells a start by another clock than the scheduler's, a node's: several nodes of one run tell several. The newest run is
    meant where it goes on with the same `restarts`, or ended later than that; else a new one begins then.
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
    cards = _cards({given["node"] for one in told for given in one.get("allocations", ())})
    kept = []
    for one in told:
        job, is_new = _run_of(one, at)
        ended_before = job.ended_at
        _set(job, one, at)
        if job.ended_at is not None and job.ended_at < job.started_at:
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
    runs = Job.objects.select_for_update().filter(cluster=one["cluster"], job_id=one["job_id"])
    if "started_at" in one:
        defaults = {"source": one.get("source", "api"), "told_at": at}
        return runs.get_or_create(cluster=one["cluster"], job_id=one["job_id"], started_at=one["started_at"], defaults=defaults)
    if "started_about" in one:
        _one_by_one(f"{one['cluster']}/{one['job_id']}")
    newest = runs.order_by("-started_at", "-pk").first()
    if "ended_at" in one and "started_about" not in one:  # of a run that was put back since, the one before is meant
        newest = runs.filter(started_at__lte=one["ended_at"]).order_by("-started_at", "-pk").first() or newest
    if "started_about" in one and (newest is None or not _is_it(newest, one)):
        begun = {"cluster": one["cluster"], "job_id": one["job_id"], "started_at": one["started_about"]}
        return runs.get_or_create(**begun, defaults={"source": one.get("source", "api"), "told_at": at})
    if newest is None:
        says = gettext("No run of the job {job} on {cluster} is known: send started_at, when it was given its GPUs.")
        raise TellJobError(says.format(job=one["job_id"], cluster=one["cluster"]))
    return newest, False


def _one_by_one(job: str) -> None:
    """Let those who tell of this job begin it one after the other: PostgreSQL locks no row that is not there yet, SQLite has one writer."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [job])


def _is_it(newest: Job, one: Told) -> bool:
    """Whether a start about then is this run's: it goes on and was put back as often, or its end was told before its start."""
    if newest.ended_at is None:
        return one.get("restarts", newest.restarts) == newest.restarts
    return newest.ended_at >= one["started_about"]


def _set(job: Job, one: Told, at: datetime) -> None:
    for name in _KEPT:
        if name in one:
            setattr(job, name, one[name])
    job.told_at = max(job.told_at, at)
    job.family = family_of(job)
    state = one.get("state")
    if "ended_at" in one or state in END_STATES:
        job.ended_at = one.get("ended_at") or job.ended_at or max(at, job.started_at)
        job.state = state or (job.state if job.state in END_STATES else _by_exit_code(job))
    elif state is not None and (job.ended_at is None or job.state == "lost"):  # an end wins over a start that comes late
        job.state, job.ended_at = state, None


def _by_exit_code(job: Job) -> str:
    return "failed" if job.exit_code else "completed"
