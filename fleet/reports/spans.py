"""When a job held which GPUs: what is its own, what it shared, and what no agent knows.

Who else held a GPU, and when, is said by fleet.jobs.holding: what others held too is nobody's own.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

import numpy as np
from django.db.models import QuerySet

from fleet.inventory.models import Gpu
from fleet.jobs.devices import stands_for
from fleet.jobs.holding import Part, parts
from fleet.jobs.models import Allocation, Job

HOUR_S: Final = 3600
_IN_ONE_QUERY: Final = 500
"""More GPUs than this are not named in a query."""


@dataclass(frozen=True, slots=True)
class Span:
    """From `start` to before `end` (UTC seconds) the job held the GPU."""

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
    """What a job held up to `end`: `spans` are its own, `taken` what others held too; of devices that no agent told of there are only the
    seconds, which `shared_s` has too where they are marked as shared.

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
    taken: tuple[Span, ...] = ()

    @property
    def mark(self) -> str:
        """The same for the same devices held at the same times."""
        told = (self.start, self.end, self.spans, self.taken, self.shared_s, self.unknown_s)
        return sha256(repr(told).encode()).hexdigest()[:16]

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
    seconds = {"shared": 0, "unknown": 0}
    named: dict[str, dict[tuple[str, str], None]] = {"shared": {}, "unknown": {}}
    rows = list(job.allocations.select_related("gpu"))
    of_gpu: dict[int, list[Allocation]] = defaultdict(list)
    for row in rows:
        if row.gpu_id is not None:
            of_gpu[row.gpu_id].append(row)
            continue
        first, last = _within(row.from_at, row.until_at, start, end)
        if first < last:
            kind = "shared" if row.shared else "unknown"
            seconds[kind] += (last - first) * stands_for(row.device)
            named[kind][row.node_name, row.device] = None
    known = parts(job, at) if of_gpu else {}
    own: list[Span] = []
    taken: list[Span] = []
    overlapped: list[int] = []
    for gpu in sorted(known):
        node = next(row.gpu.node_id for row in of_gpu[gpu] if row.gpu is not None)
        spans = {is_shared: list(_spans(gpu, node, known[gpu], is_shared, start, end)) for is_shared in (False, True)}
        own += spans[False]
        taken += spans[True]
        if spans[True] and not spans[False] and not all(row.shared for row in of_gpu[gpu]):
            overlapped.append(gpu)
        for row in of_gpu[gpu]:
            first, last = _within(row.from_at, row.until_at, start, end)
            if any(span.start < last and span.end > first for span in spans[True]):
                named["shared"][row.node_name, row.device] = None
    return Held(
        job.pk,
        start,
        end,
        tuple(own),
        seconds["shared"] + sum(span.seconds for span in taken),
        seconds["unknown"],
        tuple(named["shared"]),
        tuple(named["unknown"]),
        tuple(sorted({row.node_name for row in rows})),
        tuple(overlapped),
        tuple(taken),
    )


def seconds_by(spans: Sequence[Span], cuts: Sequence[tuple[int, int]]) -> list[int]:
    """GPU seconds of the spans within each of the cuts (from, to)."""
    starts, ends = (np.array([getattr(span, name) for span in spans], dtype=np.int64) for name in ("start", "end"))
    return [int((np.minimum(ends, last) - np.maximum(starts, first)).clip(0).sum()) for first, last in cuts]


def _spans(gpu: int, node: int, held: Sequence[Part], is_shared: bool, start: int, end: int) -> Iterator[Span]:
    for part in held:
        first, last = _within(part.from_at, part.until_at, start, end)
        if part.shared == is_shared and first < last:
            yield Span(gpu, node, first, last)


def _within(from_at: datetime, until_at: datetime | None, start: int, end: int) -> tuple[int, int]:
    """In seconds, cut to the job's time."""
    return max(start, int(from_at.timestamp())), end if until_at is None else min(end, int(until_at.timestamp()))
