"""Who holds which GPU: at a time, over a window, or beside one job.

A scheduler's word counts before what processes show: where both name a holder, only the scheduler's is one. A GPU that several jobs
hold at once, or whose allocation is marked so (time slicing, MPS), is shared: nothing that is read of it is one job's own. A run whose
end nobody told has ended where the next run of its job id begins on the GPU, and an allocation that nobody closed ends with its job.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias

from django.db.models import Q, QuerySet

from fleet.jobs.models import Allocation, Job
from fleet.jobs.times import Time, common, joined, without

_IN_ONE_QUERY: Final = 500
"""More ids than this are not named in a query: all rows of the time are read instead."""


class Held(NamedTuple):
    """One job's hold of one GPU. `shared`: others hold it too, within the same time."""

    job: int
    target: str
    family: str
    shared: bool
    source: str
    from_at: datetime
    until_at: datetime | None

    @property
    def scheduled(self) -> bool:
        """True where a scheduler told of it, and not only processes show it."""
        return self.source != "processes"

    @property
    def time(self) -> Time:
        """From when until when; None: it still does."""
        return self.from_at, self.until_at


class Part(NamedTuple):
    """From `from_at` to `until_at` a job held a GPU, alone or `shared`."""

    from_at: datetime
    until_at: datetime | None
    shared: bool


class _Row(NamedTuple):
    gpu: int
    job: int
    shared: bool
    from_at: datetime
    until_at: datetime | None


_Known: TypeAlias = tuple[str, str, str, datetime, datetime | None]
"""Target, family, source, start and end of a job."""


def holders(at: datetime, gpus: Collection[int] | None = None, *, processes: bool = True) -> dict[int, tuple[Held, ...]]:
    """By GPU who holds it at `at`, the longest holder first; a GPU that nobody holds is left out.

    Without `gpus`: of all; without `processes`: those that a scheduler told of.
    """
    rows = Allocation.objects.filter(Q(until_at=None) | Q(until_at__gt=at), from_at__lte=at)
    found = _held(rows if processes else rows.exclude(job__source="processes"), gpus)
    now = {gpu: tuple(one for one in held if one.until_at is None or one.until_at > at) for gpu, held in found.items()}
    return {gpu: held for gpu, held in now.items() if held}


def holders_within(since: datetime, until: datetime, gpus: Collection[int] | None = None) -> dict[int, tuple[Held, ...]]:
    """By GPU who held it at any time from `since` to before `until`, in order of their beginning, whole: not cut to the window."""
    return _held(Allocation.objects.filter(Q(until_at=None) | Q(until_at__gt=since), from_at__lt=until), gpus)


def ended_within(since: datetime, until: datetime) -> dict[int, Held]:
    """By GPU the scheduler's hold of it that ended last after `since` and not after `until`; GPUs of which none did are left out."""
    found = _held(Allocation.objects.filter(until_at__gt=since, until_at__lte=until).exclude(job__source="processes"), None)
    return {gpu: max(held, key=lambda one: (one.until_at or until, one.from_at)) for gpu, held in found.items() if held}


def parts(job: Job, until: datetime) -> dict[int, tuple[Part, ...]]:
    """By GPU that the job was given when it held it alone, and when others did too, in order; what begins from `until` on is left out.

    Shared is what an allocation of its own says so of, and what another job held at the same time; of what processes show, only another
    run of processes.
    """
    given = Allocation.objects.filter(job=job, gpu__isnull=False)
    rows = Allocation.objects.filter(gpu__in=given.values("gpu"), from_at__lt=until)
    rows = rows.filter(Q(until_at=None) | Q(until_at__gt=job.started_at))
    if job.source != "processes":
        rows = rows.exclude(job__source="processes")
    found = {}
    for gpu, held in _cut(rows, None).items():
        mine = [one for one in held if one.job == job.pk]
        marked = [one.time for one in mine if one.shared]
        taken = joined([*marked, *(other.time for one in mine for other in _beside(one, held))])
        whole = joined(one.time for one in mine)
        told = [Part(*time, False) for time in without(whole, taken)] + [Part(*time, True) for time in common(whole, taken)]
        found[gpu] = tuple(sorted(told, key=lambda part: part.from_at))
    return found


def _held(rows: "QuerySet[Allocation]", gpus: Collection[int] | None) -> dict[int, tuple[Held, ...]]:
    return {gpu: _told(held) for gpu, held in _cut(rows, gpus).items()}


def _cut(rows: "QuerySet[Allocation]", gpus: Collection[int] | None) -> dict[int, list[Held]]:
    """By GPU the holds of the rows in order of their beginning, each within its job's time; `shared` as its scheduler marked it."""
    named = gpus is not None and len(gpus) <= _IN_ONE_QUERY
    rows = rows.filter(gpu__in=list(gpus or ())) if named else rows.filter(gpu__isnull=False)
    found: dict[int, list[_Row]] = defaultdict(list)
    for row in rows.order_by().values_list("gpu_id", "job_id", "shared", "from_at", "until_at"):
        if gpus is None or named or row[0] in gpus:
            found[row[0]].append(_Row(*row))
    jobs = _jobs({row.job for held in found.values() for row in held})
    return {gpu: _in_their_time([_of_row(row, jobs[row.job]) for row in held if row.job in jobs]) for gpu, held in found.items()}


def _jobs(keys: Iterable[int]) -> dict[int, _Known]:
    """What is known of the jobs, by their keys: read once a job, not once a GPU of it."""
    listed = sorted(keys)
    found: dict[int, _Known] = {}
    for first in range(0, len(listed), _IN_ONE_QUERY):
        part = Job.objects.filter(pk__in=listed[first : first + _IN_ONE_QUERY]).order_by()
        fields = ("pk", "cluster", "job_id", "family", "source", "started_at", "ended_at")
        for pk, cluster, number, family, source, started_at, ended_at in part.values_list(*fields):
            found[pk] = (f"{cluster}/{number}" if cluster else number, family, source, started_at, ended_at)
    return found


def _of_row(row: _Row, known: _Known) -> Held:
    target, family, source, started_at, ended_at = known
    ends = [at for at in (row.until_at, ended_at) if at is not None]
    return Held(row.job, target, family, row.shared, source, max(row.from_at, started_at), min(ends) if ends else None)


def _in_their_time(held: Sequence[Held]) -> list[Held]:
    """The holds in order, without those of no time; a run goes on no longer than to the start of the next one of its job."""
    if len(held) > 1:
        held = sorted(held, key=lambda one: (one.from_at, one.job))
        held = [one._replace(until_at=_next(one, held)) for one in held]
    return [one for one in held if one.until_at is None or one.from_at < one.until_at]


def _next(one: Held, held: Iterable[Held]) -> datetime | None:
    """When the hold ends, at the latest with the next run of the same job."""
    later = [
        other.from_at for other in held if other.target == one.target and other.job != one.job and other.from_at > one.from_at
    ]
    ends = [*later, *([one.until_at] if one.until_at is not None else [])]
    return min(ends) if ends else None


def _told(held: Sequence[Held]) -> tuple[Held, ...]:
    """The holds as they count: of processes what no scheduler's job took, and each with whether others hold it too."""
    if len(held) < 2:
        return tuple(held)
    told = []
    for one in held:
        beside = [other.time for other in _beside(one, held) if other.scheduled == one.scheduled]
        over = joined(other.time for other in held if other.scheduled and not one.scheduled)
        for since, until in without([one.time], over):
            left = one._replace(from_at=since, until_at=until)
            told.append(left._replace(shared=one.shared or bool(common([left.time], beside))))
    return tuple(sorted(told, key=lambda one: (one.from_at, one.job)))


def _beside(one: Held, held: Iterable[Held]) -> list[Held]:
    """Whose hold of the same GPU takes from this one: other jobs', but not that of processes from a scheduler's.

    A run of the same job that its scheduler has put back is no other job.
    """
    return [other for other in held if other.target != one.target and (other.scheduled or not one.scheduled)]
