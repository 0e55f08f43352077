"""When a job held which GPUs: what is its own, what it shared, and what no agent knows."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from fleet.inventory.models import Gpu
from fleet.jobs.models import Allocation, Job

HOUR_S: Final = 3600


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

    `shared` and `unknown` name the devices as (node, device).
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
        return Gpu.objects.filter(pk__in=Allocation.objects.filter(job=self.job, shared=False, gpu__isnull=False).values("gpu"))


def held(job: Job, at: datetime) -> Held:
    """What the job held until it ended, or until `at`."""
    start = int(job.started_at.timestamp())
    end = max(start, int(min(job.ended_at or at, at).timestamp()))
    spans: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    seconds = {"shared": 0, "unknown": 0}
    named: dict[str, dict[tuple[str, str], None]] = {"shared": {}, "unknown": {}}
    rows = list(job.allocations.select_related("gpu"))
    for row in rows:
        first, last = max(start, int(row.from_at.timestamp())), min(end, _end(row, end))
        kind = "shared" if row.shared else "unknown" if row.gpu is None else ""
        if last <= first:
            continue
        if row.gpu is not None and not row.shared:
            spans[row.gpu.pk, row.gpu.node_id].append((first, last))
        else:
            seconds[kind] += last - first
            named[kind][row.node_name, row.device] = None
    own = tuple(Span(gpu, node, first, last) for (gpu, node), times in sorted(spans.items()) for first, last in _joined(times))
    return Held(
        job.pk,
        start,
        end,
        own,
        seconds["shared"],
        seconds["unknown"],
        tuple(named["shared"]),
        tuple(named["unknown"]),
        tuple(sorted({row.node_name for row in rows})),
    )


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
