"""What events of the last weeks say of GPUs, nodes and jobs: XIDs by kind, lost GPUs, ends that programs did not choose.

A target whose node reports and that has no event has zero of them. What the kernel's log or the driver never told is not known
to anybody here, so counts are lower bounds.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from django.db.models import Count

from advisor import xid_catalog
from advisor.job_family import job_family
from fleet.annotations.matching import is_pattern
from fleet.annotations.models import Annotation
from fleet.inventory.models import Event, Gpu
from fleet.jobs.models import Allocation
from fleet.slow.models import JobRun

DAY: Final = timedelta(days=1)
WEEK: Final = timedelta(days=7)
MONTH: Final = timedelta(days=30)
TOGETHER: Final = timedelta(minutes=2)
"""Events of one node within so much of each other are one end: a job's GPUs fall one after the other."""
AFTER_END: Final = timedelta(minutes=3)
"""An event so long after a run was seen last may have ended it: `last_seen` is right to a minute."""
BAD_ENDS: Final = ("failed", "node_fail", "out_of_memory")
MOST_EVENTS: Final = 20_000
"""The newest of them; a storm says no more."""
_PROGRAM: Final = ("app-fault-xid",)
_ENDING: Final = ("xid-fallen-off-bus", "uncorrectable-ecc", "gpu-reset-required", "nvlink-fault")
APP_CODES: Final = frozenset(xid.code for xid in xid_catalog.XIDS if xid.rule in _PROGRAM and not xid.companion)
ENDING_CODES: Final = frozenset(
    xid.code
    for xid in xid_catalog.XIDS
    if xid.rule in _ENDING and not xid.companion and xid.code != 154  # 154 follows another
)
"""XIDs of the card, its memory or its links that end who computes on it. A program's own faults follow the program, not the node."""
_WHO: Final = re.compile(r"\bprocess (?:(?P<pid>\d+)(?: \((?P<name>[^()]*)\))?|(?P<only>[^\s,.()]+))")


class Told(NamedTuple):
    """One event, as it is read."""

    node: int
    gpu: int | None
    kind: str
    code: int | None
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class _Held:
    job: str
    program: str
    gpus: frozenset[int]
    pids: frozenset[int]
    first: datetime
    last: datetime

    def was_there(self, at: datetime) -> bool:
        return self.first <= at <= self.last + AFTER_END


Runs: TypeAlias = Mapping[int, Sequence[_Held]]


def read(at: datetime) -> list[Told]:
    """The events of a month that count here, newest first."""
    app = Event.objects.filter(kind="xid", code__in=APP_CODES, observed_at__gt=at - MONTH)
    week = Event.objects.filter(observed_at__gt=at - WEEK, kind__in=("xid", "oom", "gpu_lost", "gpu_back"))
    fields = ("pk", "node_id", "gpu_id", "kind", "code", "text", "observed_at")
    rows = {
        row[0]: Told(*row[1:]) for part in (app, week) for row in part.order_by("-observed_at").values_list(*fields)[:MOST_EVENTS]
    }
    return sorted((one for one in rows.values() if one.at <= at), key=lambda one: one.at, reverse=True)


def held(at: datetime, nodes: Iterable[int]) -> Runs:
    """By node the runs of a month."""
    found: dict[int, list[_Held]] = defaultdict(list)
    asked = set(nodes)
    if not asked:
        return found
    node_of = dict(Gpu.objects.filter(node__in=asked).order_by().values_list("pk", "node_id"))
    rows = JobRun.objects.filter(last_seen__gt=at - MONTH).order_by("-last_seen")
    for node, job, program, gpus, pids, first, last in rows.values_list(
        "node_id", "job", "program", "gpu_ids", "pids", "first_seen", "last_seen"
    )[:MOST_EVENTS]:
        for place in asked & {node, *(node_of[gpu] for gpu in gpus if gpu in node_of)}:
            here = frozenset(pids) if place == node else frozenset()  # those are of its first node
            found[place].append(_Held(job, program, frozenset(gpus), here, first, last))
    return found


def of_gpus(at: datetime, gpus: Iterable[int], events: Sequence[Told], runs: Runs) -> dict[int, dict[str, Any]]:
    """The features of each GPU."""
    day = dict(
        Event.objects.filter(kind="xid", observed_at__gt=at - DAY, observed_at__lte=at, gpu__isnull=False)
        .order_by().values_list("gpu_id").annotate(Count("pk"))
    )  # fmt: skip
    faults: dict[int, list[Told]] = defaultdict(list)
    for event in events:
        if event.kind == "xid" and event.code in APP_CODES and event.gpu is not None:
            faults[event.gpu].append(event)
    found: dict[int, dict[str, Any]] = {}
    for gpu in gpus:
        mine = faults.get(gpu, [])
        programs = {who for event in mine if (who := program(event, runs)) is not None}
        found[gpu] = {
            "xids_24h": day.get(gpu, 0),
            "app_xids_30d": len(mine),
            "app_xid_jobs_30d": len(programs) if programs or not mine else None,
            "app_xid_code": mine[0].code if mine else None,
        }
    return found


def lost(events: Sequence[Told]) -> set[int]:
    """The GPUs whose newest word of the last week is that they are gone."""
    newest: dict[int, bool] = {}
    for event in events:
        gone = event.kind == "gpu_lost" or (event.kind == "xid" and event.code is not None and _rule(event.code) == _ENDING[0])
        if event.gpu is not None and (gone or event.kind == "gpu_back"):
            newest.setdefault(event.gpu, gone)
    return {gpu for gpu, is_gone in newest.items() if is_gone}


def of_nodes(at: datetime, nodes: Mapping[int, str], events: Sequence[Told], runs: Runs) -> dict[int, dict[str, Any]]:
    """The features of each node; an end is counted where it is known that a job was there."""
    week = dict(
        Event.objects.filter(kind="xid", observed_at__gt=at - WEEK, observed_at__lte=at)
        .order_by().values_list("node_id").annotate(Count("pk"))
    )  # fmt: skip
    ends: dict[int, list[tuple[datetime, str | None]]] = defaultdict(list)
    for event in events:
        ending = event.kind in ("oom", "gpu_lost") or (event.kind == "xid" and event.code in ENDING_CODES)
        if ending and event.at > at - WEEK:
            who = program(event, runs)
            if who is not None or _WHO.search(event.text):
                ends[event.node].append((event.at, who))
    for node, when, family in (*_exits(at, nodes), *_bad_ends(at, nodes)):
        ends[node].append((when, family))
    return {
        node: {
            "xids_7d": week.get(node, 0),
            "abnormal_ends_7d": _apart(when for when, _ in ends[node]),
            "abnormal_end_jobs_7d": len({who for _, who in ends[node] if who is not None}),
        }
        for node in nodes
    }


def ooms(at: datetime, jobs: Mapping[str, JobRun], events: Sequence[Told], runs: Runs) -> dict[str, int]:
    """By job how often the kernel killed a process of it for want of memory within a day.

    A kill is a job's by its pid, else where one job alone was on the node then, else by the program's name.
    """
    counts = dict.fromkeys(jobs, 0)
    for event in events:
        if event.kind != "oom" or event.at <= at - DAY:
            continue
        there = [run for run in runs.get(event.node, ()) if run.was_there(event.at)]
        pid, name = _who(event.text)
        mine = {run.job for run in there if pid in run.pids} or {run.job for run in there}
        if len(mine) > 1:
            mine = {job for job in mine if name is not None and job.rpartition("/")[2] == name}
        if len(mine) == 1 and (job := mine.pop()) in counts:
            counts[job] += 1
    return counts


def _exits(at: datetime, nodes: Mapping[int, str]) -> Iterable[tuple[int, datetime, str]]:
    """The jobs of which somebody told that they ended badly: node, when, program."""
    pk_of = {name: pk for pk, name in nodes.items()}
    rows = Annotation.objects.filter(scope="job", key="exit_code", at__gt=at - WEEK, at__lte=at)
    for target, value, when in rows.values_list("target", "value", "at"):
        if value == 0 or is_pattern(target):
            continue
        ends = [place for place, sign in enumerate(target) if sign == "/" and target[:place] in pk_of]  # a name may have one too
        if ends:
            node = target[: ends[-1]]
            yield pk_of[node], when, job_family(target, node)


def _bad_ends(at: datetime, nodes: Mapping[int, str]) -> Iterable[tuple[int, datetime, str]]:
    """The ends of jobs that their schedulers told as bad: node, when, program."""
    rows = Allocation.objects.filter(
        job__state__in=BAD_ENDS, job__ended_at__gt=at - WEEK, job__ended_at__lte=at, node__in=list(nodes)
    )
    for node, when, family in rows.values_list("node_id", "job__ended_at", "job__family").distinct():
        if node is not None and when is not None:
            yield node, when, family


def _apart(times: Iterable[datetime]) -> int:
    """How many groups they are, with no more than TOGETHER between two of one group."""
    count, before = 0, None
    for when in sorted(times):
        count += before is None or when - before > TOGETHER
        before = when
    return count


def program(event: Told, runs: Runs) -> str | None:
    """Whose it was: the run that held the GPU then (of events without a GPU, the one with the pid), else the name in its text."""
    pid, name = _who(event.text)
    there = [run for run in runs.get(event.node, ()) if run.was_there(event.at)]
    by_pid = [run.program for run in there if pid in run.pids]
    by_gpu = [run.program for run in there if event.gpu in run.gpus]
    return next(iter([*by_pid, *by_gpu]), name)


def _who(text: str) -> tuple[int | None, str | None]:
    found = _WHO.search(text)
    if found is None:
        return None, None
    return int(found["pid"]) if found["pid"] else None, found["name"] or found["only"]


def _rule(code: int) -> str | None:
    xid = xid_catalog.BY_CODE.get(code)
    return None if xid is None else xid.rule
