"""Who holds which GPU: at a time, or over a window.

A scheduler's word counts before what processes show: where both name a holder, only the scheduler's is one. A GPU that several jobs
hold at once, or whose allocation is marked so (time slicing, MPS), is shared: nothing that is read of it is one job's own.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Q, QuerySet

from fleet.jobs.models import Allocation, Job

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


class _Row(NamedTuple):
    gpu: int
    job: int
    shared: bool
    from_at: datetime
    until_at: datetime | None


def holders(at: datetime, gpus: Collection[int] | None = None, *, processes: bool = True) -> dict[int, tuple[Held, ...]]:
    """By GPU who holds it at `at`, the longest holder first; a GPU that nobody holds is left out.

    Without `gpus`: of all; without `processes`: those that a scheduler told of.
    """
    rows = Allocation.objects.filter(Q(until_at=None) | Q(until_at__gt=at), from_at__lte=at)
    return _held(rows if processes else rows.exclude(job__source="processes"), gpus)


def holders_within(since: datetime, until: datetime, gpus: Collection[int] | None = None) -> dict[int, tuple[Held, ...]]:
    """By GPU who held it at any time from `since` to before `until`, in order of their beginning, whole: not cut to the window."""
    return _held(Allocation.objects.filter(Q(until_at=None) | Q(until_at__gt=since), from_at__lt=until), gpus)


def ended_within(since: datetime, until: datetime) -> dict[int, Held]:
    """By GPU the scheduler's hold of it that ended last after `since` and not after `until`; GPUs of which none did are left out."""
    found = _held(Allocation.objects.filter(until_at__gt=since, until_at__lte=until).exclude(job__source="processes"), None)
    return {gpu: max(held, key=lambda one: (one.until_at or until, one.from_at)) for gpu, held in found.items()}


def _held(rows: "QuerySet[Allocation]", gpus: Collection[int] | None) -> dict[int, tuple[Held, ...]]:
    named = gpus is not None and len(gpus) <= _IN_ONE_QUERY
    rows = rows.filter(gpu__in=list(gpus or ())) if named else rows.filter(gpu__isnull=False)
    found: dict[int, list[_Row]] = defaultdict(list)
    for row in rows.order_by().values_list("gpu_id", "job_id", "shared", "from_at", "until_at"):
        if gpus is None or named or row[0] in gpus:
            found[row[0]].append(_Row(*row))
    jobs = _jobs({row.job for held in found.values() for row in held})
    return {gpu: _told(held, jobs) for gpu, held in found.items()}


def _jobs(keys: Iterable[int]) -> dict[int, tuple[str, str, str]]:
    """Target, family and source of the jobs, by their keys: read once a job, not once a GPU of it."""
    listed = sorted(keys)
    found: dict[int, tuple[str, str, str]] = {}
    for first in range(0, len(listed), _IN_ONE_QUERY):
        part = Job.objects.filter(pk__in=listed[first : first + _IN_ONE_QUERY]).order_by()
        for pk, cluster, number, family, source in part.values_list("pk", "cluster", "job_id", "family", "source"):
            found[pk] = (f"{cluster}/{number}" if cluster else number, family, source)
    return found


def _told(rows: Sequence[_Row], jobs: Mapping[int, tuple[str, str, str]]) -> tuple[Held, ...]:
    held = [_of_row(row, *jobs[row.job]) for row in rows if row.job in jobs]
    if len(held) < 2:
        return tuple(held)
    held.sort(key=lambda one: (one.from_at, one.job))
    told = [one for one in held if one.scheduled or not any(_overlap(one, other) for other in held if other.scheduled)]
    # A run of the same job that its scheduler has put back is no other job.
    return tuple(
        one._replace(shared=one.shared or any(_overlap(one, other) for other in told if other.target != one.target))
        for one in told
    )


def _of_row(row: _Row, target: str, family: str, source: str) -> Held:
    return Held(row.job, target, family, row.shared, source, row.from_at, row.until_at)


def _overlap(one: Held, other: Held) -> bool:
    return (one.until_at is None or other.from_at < one.until_at) and (other.until_at is None or one.from_at < other.until_at)
