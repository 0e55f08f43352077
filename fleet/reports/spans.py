"""When a job held which GPUs: what is its own, what it shared, and what no agent knows.

Shared is what its allocation says so of, and any stretch in which another job held the same GPU: its readings are nobody's own.
Another run of the same job id is another job here. What processes show takes nothing from a job that a scheduler told of.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.db.models import Q, QuerySet

from fleet.inventory.models import Gpu
from fleet.jobs.models import Allocation, Job

HOUR_S: Final = 3600
_IN_ONE_QUERY: Final = 500
"""More GPUs than this are not named in a query."""


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` to before `end` (UTC seconds) the job held the GPU alone."""

    gpu: int
    node: int
    start: int
    end: int

    @property
    def seconds(self) -> int:
        """How long that is."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Held:
    """What a job held up to `end`: `spans` are its own, of shared devices and of those that no agent told of there are only the seconds.

    `shared` and `unknown` name the devices as (node, device); `overlapped` are the GPUs that others held all the time that it did.
    """

    job: int
    start: int
    end: int
    spans: tuple[Span, ...]
    shared_s: int
    unknown_s: int
    shared: tuple[tuple[str, str], ...]
    unknown: tuple[tuple[str, str], ...]
    nodes: tuple[str, ...]
    overlapped: tuple[int, ...] = ()

    @property
    def own_s(self) -> int:
        """GPU seconds of what was its own, known or not."""
        return sum(span.seconds for span in self.spans) + self.unknown_s

    @property
    def gpus(self) -> tuple[int, ...]:
        """The GPUs of the spans, in order."""
        return tuple(sorted({span.gpu for span in self.spans}))

    @property
    def cards(self) -> QuerySet[Gpu]:
        """The rows of what was its own, by a subquery: there may be more than a database takes by name."""
        rows = Allocation.objects.filter(job=self.job, shared=False, gpu__isnull=False)
        return Gpu.objects.filter(pk__in=rows.values("gpu")).exclude(pk__in=self.overlapped[:_IN_ONE_QUERY])


def held(job: Job, at: datetime) -> Held:
    """What the job held until it ended, or until `at`."""
    start = int(job.started_at.timestamp())
    end = max(start, int(min(job.ended_at or at, at).timestamp()))
    times: dict[Gpu, list[tuple[int, int]]] = defaultdict(list)
    devices: dict[Gpu, list[tuple[int, int, tuple[str, str]]]] = defaultdict(list)
    seconds = {"shared": 0, "unknown": 0}
    named: dict[str, dict[tuple[str, str], None]] = {"shared": {}, "unknown": {}}
    rows = list(job.allocations.select_related("gpu"))
    for row in rows:
        first, last = max(start, int(row.from_at.timestamp())), min(end, _end(row, end))
        kind = "shared" if row.shared else "unknown" if row.gpu is None else ""
        if last <= first:
            continue
        if row.gpu is not None and not row.shared:
            times[row.gpu].append((first, last))
            devices[row.gpu].append((first, last, (row.node_name, row.device)))
        else:
            seconds[kind] += last - first
            named[kind][row.node_name, row.device] = None
    others = _others(job, start, end) if times else {}
    own: list[Span] = []
    overlapped: list[int] = []
    for gpu in sorted(times, key=lambda one: one.pk):
        mine = _joined(times[gpu])
        alone = _without(mine, others.get(gpu.pk, ()))
        own += (Span(gpu.pk, gpu.node_id, first, last) for first, last in alone)
        if not alone:
            overlapped.append(gpu.pk)
        if alone != mine:
            seconds["shared"] += _length(mine) - _length(alone)
            for first, last, name in devices[gpu]:
                if _without([(first, last)], others[gpu.pk]) != [(first, last)]:
                    named["shared"][name] = None
    return Held(
        job.pk,
        start,
        end,
        tuple(own),
        seconds["shared"],
        seconds["unknown"],
        tuple(named["shared"]),
        tuple(named["unknown"]),
        tuple(sorted({row.node_name for row in rows})),
        tuple(overlapped),
    )


def _others(job: Job, start: int, end: int) -> dict[int, list[tuple[int, int]]]:
    """By GPU of the job when others held it from `start` to before `end`, in order."""
    first, last = (datetime.fromtimestamp(at, UTC) for at in (start, end))
    rows = Allocation.objects.filter(gpu__in=Allocation.objects.filter(job=job, shared=False, gpu__isnull=False).values("gpu"))
    rows = rows.filter(Q(until_at=None) | Q(until_at__gt=first), from_at__lt=last).exclude(job=job)
    if job.source != "processes":
        rows = rows.exclude(job__source="processes")
    found: dict[int, list[tuple[int, int]]] = defaultdict(list)
    told = rows.order_by().values_list("gpu_id", "from_at", "until_at", "job__started_at", "job__ended_at")
    for gpu, from_at, until_at, started_at, ended_at in told:
        ends = [at for at in (until_at, ended_at) if at is not None]
        until = int(min(ends).timestamp()) if ends else end
        since = int(max(from_at, started_at).timestamp())
        if gpu is not None and since < until:
            found[gpu].append((since, until))
    return {gpu: _joined(times) for gpu, times in found.items()}


def _without(times: Iterable[tuple[int, int]], taken: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of the times; those that are `taken` are in order, and none overlaps another."""
    left: list[tuple[int, int]] = []
    for first, last in times:
        at = first
        for since, until in taken:
            if until <= at or since >= last:
                continue
            if since > at:
                left.append((at, since))
            at = until
        if at < last:
            left.append((at, last))
    return left


def _length(times: Iterable[tuple[int, int]]) -> int:
    return sum(last - first for first, last in times)


def _end(row: Allocation, end: int) -> int:
    return end if row.until_at is None else int(row.until_at.timestamp())


def _joined(times: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The times in order; those that touch or overlap are one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(times):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found
