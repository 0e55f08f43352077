"""Whose job each GPU works for.

An open allocation of a scheduler says it first. Without one, what the labels of the process that holds the GPU say does: the number of a
Slurm job, where the cluster of its node is known, or a pod that a scheduler told of. Else it is a job of its own: `node/user/program` of
whoever holds the GPU. A GPU that several jobs share is nobody's alone, and one that only processes of others use is not its job's work.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias, TypeVar

import polars as pl

from fleet.inventory.models import STALE_AFTER
from fleet.jobs.holding import Held
from fleet.jobs.models import Allocation, Job

Labels: TypeAlias = Mapping[tuple[int, int], Mapping[str, str]]
"""By node and pid what a process told of itself (wire.labels)."""

NOW_S: Final = STALE_AFTER.total_seconds() / 2
"""Who held a GPU within so much of the newest of its holders holds it now."""
CLUSTER_KNOWN: Final = timedelta(days=7)
"""A node belongs to the cluster whose scheduler told of a job there within this time."""
LONGEST: Final = 300
"""Characters of a job's name."""
SAYS: Final[Mapping[str, tuple[str, str]]] = {"slurm_job": ("slurm", "slurm_id"), "pod_name": ("kubernetes", "pod")}
"""The labels of a process that name its job: whose word that is, and the label of a job that has it where the job's id is another (a task
of an array, a pod in its namespace)."""
_IN_ONE_QUERY: Final = 500
_Key = TypeVar("_Key", int, str)


@dataclass(frozen=True, slots=True)
class Attribution:
    """By GPU its job, and how that is known. A GPU that is in none of them is held by nobody.

    `scheduled`: the allocation that names its job. `members`: of a job that a scheduler or labels name, the processes on the GPU that are
    its own. `rows`: the row of each job that a scheduler told of. `foreign`: the processes there that belong to others than its holder.
    `shared`: it has no job, as it has several; `used`: any process was listed there.
    """

    jobs: dict[int, str] = field(default_factory=dict)
    scheduled: dict[int, Held] = field(default_factory=dict)
    members: dict[int, frozenset[int]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    foreign: dict[int, frozenset[int]] = field(default_factory=dict)
    shared: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)

    def add(self, other: "Attribution") -> None:
        """Take in what is said of other GPUs."""
        self.jobs.update(other.jobs)
        self.scheduled.update(other.scheduled)
        self.members.update(other.members)
        self.rows.update(other.rows)
        self.foreign.update(other.foreign)
        self.shared.update(other.shared)
        self.used.update(other.used)


class _Holder(NamedTuple):
    pid: int
    user: str | None
    name: str | None
    last: float
    now: bool = True


def attribute(
    at: datetime,
    process: pl.DataFrame,
    node_of: Mapping[int, int],
    node_names: Mapping[int, str],
    held: Mapping[int, tuple[Held, ...]],
    labels: Labels,
    ended: Mapping[int, Held] = MappingProxyType({}),
    *,
    name_ended: bool = False,
) -> Attribution:
    """Whose the GPUs of `node_of` (the node of each) are at `at`.

    `process`: rows of `gpu`, `pid`, `t`, `user`, `name`, `gpu_mem_bytes` in order of GPU, process and time; `held`: holding.holders,
    schedulers' alone; `ended`: holding.ended_within of the time of these rows. Processes that went with their job's allocation were its own: their GPU is
    that job's with `name_ended`, else nobody's now.
    """
    there = _there(process)
    main, pids = _main(there), _listed(there)
    found = Attribution(used=set(pids))
    unnamed: dict[int, _Holder] = {}
    for gpu in node_of:
        told = held.get(gpu)
        if told is not None and any(one.shared for one in told):
            found.shared.add(gpu)
        elif told is not None:
            found.scheduled[gpu] = told[-1]
        elif gpu in main:
            unnamed[gpu] = main[gpu]
    foreign = _foreign(found.scheduled, pids, node_of, labels)
    for gpu, one in found.scheduled.items():
        others, here = foreign.get(gpu, set()), pids.get(gpu, ())
        since = one.from_at.timestamp()
        found.members[gpu] = frozenset(holder.pid for holder in here if holder.pid not in others and holder.last >= since)
        now = {holder.pid for holder in here if holder.now}
        if now & others:
            found.foreign[gpu] = frozenset(now & others)
        if not now or now - others:
            found.jobs[gpu] = one.target
            found.rows[one.target] = one.job
    before = {gpu: ended[gpu] for gpu, who in unnamed.items() if gpu in ended and _went_with(ended[gpu], who)}
    for gpu, one in before.items() if name_ended else ():
        found.jobs[gpu] = one.target
        found.rows[one.target] = one.job
        found.members[gpu] = frozenset(holder.pid for holder in pids[gpu])
    named = _named(at, unnamed, node_of, labels, found.rows)
    for gpu, who in unnamed.items():
        if gpu in before:
            continue
        node = node_of[gpu]
        target = named.get((node, who.pid))
        if target is not None:
            found.jobs[gpu] = target
            mine = _id(labels.get((node, who.pid), {}))
            found.members[gpu] = frozenset(one.pid for one in pids[gpu] if _id(labels.get((node, one.pid), {})) == mine)
        elif node in node_names:
            found.jobs[gpu] = f"{node_names[node]}/{who.user or '?'}/{who.name or '?'}"[:LONGEST]
    return found


def _there(process: pl.DataFrame) -> pl.DataFrame:
    """One row a process and GPU: who it is, when it was listed last, and what it held."""
    # The rows are in order of GPU and process: a stretch of one holder is found by looking at the row before, and names are read once a stretch.
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(1)) for name in ("gpu", "pid"))
    return (
        process.lazy()
        .group_by((~same).cum_sum().set_sorted().alias("stretch"), maintain_order=True)
        .agg(
            pl.col("gpu", "pid").first(),
            pl.col("user", "name", "t").last(),
            pl.col("gpu_mem_bytes").sum().alias("bytes"),
            pl.col("gpu_mem_bytes").count().alias("readings"),
        )
        .collect()
    )


def _main(there: pl.DataFrame) -> dict[int, _Holder]:
    """By GPU its main holder: whoever held it last, the largest where several do."""
    if there.is_empty():
        return {}
    holders = (
        there.lazy()
        .group_by("gpu", "user", "name")
        .agg(
            pl.col("t").max().alias("last"),
            pl.col("pid").sort_by("t", "bytes", "pid").last(),
            size=pl.when(pl.col("readings").sum() > 0).then(pl.col("bytes").sum() / pl.col("readings").sum()).otherwise(0.0),
        )
        .collect()
        .with_columns(now=pl.col("last") >= pl.col("last").max().over("gpu") - NOW_S)
        .sort("now", "size", "last", "user", "name", descending=[True, True, True, False, False])
        .unique("gpu", keep="first", maintain_order=True)
    )
    return {gpu: _Holder(*one) for gpu, *one in holders.select("gpu", "pid", "user", "name", "last").iter_rows()}


def _listed(there: pl.DataFrame) -> dict[int, list[_Holder]]:
    """By GPU the processes that held it, with whether they still do."""
    found: dict[int, list[_Holder]] = defaultdict(list)
    if not there.is_empty():
        now = pl.col("t") >= pl.col("t").max().over("gpu") - NOW_S
        for gpu, *one in there.select("gpu", "pid", "user", "name", "t", now.alias("now")).iter_rows():
            found[gpu].append(_Holder(*one))
    return found


def _went_with(held: Held, who: _Holder) -> bool:
    return held.until_at is not None and who.last <= held.until_at.timestamp() + NOW_S


def _id(labels: Mapping[str, str]) -> tuple[str, str] | None:
    """The label that names the job of a process, and its value."""
    return next(((name, labels[name]) for name in SAYS if name in labels), None)


def _foreign(
    scheduled: Mapping[int, Held], pids: Mapping[int, list[_Holder]], node_of: Mapping[int, int], labels: Labels
) -> dict[int, set[int]]:
    """By GPU the processes that are certainly not of the job that was given it; of which nobody knows, none is."""
    doubted: list[tuple[int, Held, _Holder, tuple[str, str] | None]] = []
    for gpu, one in scheduled.items():
        number = one.target.rpartition("/")[2]
        for holder in pids.get(gpu, ()):
            named = _id(labels.get((node_of[gpu], holder.pid), {}))
            if named is None or named[1] != number:
                doubted.append((gpu, one, holder, named))
    jobs: dict[int, tuple[str, Mapping[str, str]]] = {}
    for part in _parts({one.job for _, one, _, _ in doubted}):
        jobs |= {pk: (user, told) for pk, user, told in Job.objects.filter(pk__in=part).values_list("pk", "user", "labels")}
    found: dict[int, set[int]] = defaultdict(set)
    for gpu, one, holder, named in doubted:
        if one.job in jobs and _is_foreign(one.source, *jobs[one.job], holder, named):
            found[gpu].add(holder.pid)
    return found


def _is_foreign(source: str, user: str, told: Mapping[str, str], holder: _Holder, named: tuple[str, str] | None) -> bool:
    if named is not None and SAYS[named[0]][0] == source:
        name = SAYS[named[0]][1]
        return told.get(name) != named[1] and (source == "slurm" or name in told)
    if source != "slurm" or not user or not holder.user:
        return False
    # A daemon of the system, and a number that has no name here, may work for anybody.
    return holder.user != user and holder.user != "root" and not holder.user.isdigit()


def _named(
    at: datetime, unnamed: Mapping[int, _Holder], node_of: Mapping[int, int], labels: Labels, rows: dict[str, int]
) -> dict[tuple[int, int], str]:
    """By node and pid the job that the labels of a GPU's main holder name, where it is known whose number it is and it has not ended.

    The rows of those that a scheduler told of are put into `rows`.
    """
    slurm: dict[tuple[int, int], str] = {}
    pods: dict[tuple[int, int], str] = {}
    for gpu, who in unnamed.items():
        place = node_of[gpu], who.pid
        match _id(labels.get(place, {})):
            case ("slurm_job", number):
                slurm[place] = number
            case ("pod_name", name):
                pods[place] = name
    found = _of_slurm(at, slurm, rows) if slurm else {}
    if pods:
        there = Job.objects.filter(source="kubernetes", ended_at=None, started_at__lte=at)
        named: dict[str, list[Job]] = defaultdict(list)
        for job in there:
            named[job.labels.get("pod", "")].append(job)
        known = {place: named[name][0] for place, name in pods.items() if len(named[name]) == 1}  # of two namespaces neither
        found |= {place: job.target for place, job in known.items()}
        rows |= {job.target: job.pk for job in known.values()}
    return found


def _of_slurm(at: datetime, numbers: Mapping[tuple[int, int], str], rows: dict[str, int]) -> dict[tuple[int, int], str]:
    clusters: dict[int, str] = {}
    for part in _parts({node for node, _ in numbers}):
        given = Allocation.objects.filter(node__in=part, job__source="slurm", from_at__gte=at - CLUSTER_KNOWN)
        clusters |= dict(given.order_by("from_at").values_list("node_id", "job__cluster"))
    asked = {(clusters[node], number) for (node, _), number in numbers.items() if node in clusters}
    if not asked:
        return {}
    names = {cluster for cluster, _ in asked}
    # A task of an array has another number than processes tell: its scheduler says which.
    tasks = Job.objects.filter(cluster__in=names, source="slurm", ended_at=None).exclude(array_job_id="")
    known = {(job.cluster, job.labels["slurm_id"]): job for job in tasks if "slurm_id" in job.labels}
    for asked_for in _parts({number for _, number in asked}):
        runs = Job.objects.filter(cluster__in=names, job_id__in=asked_for, started_at__lte=at).exclude(source="processes")
        for job in runs.order_by("started_at"):
            known.setdefault((job.cluster, job.job_id), job)
            if known[job.cluster, job.job_id].job_id == job.job_id:
                known[job.cluster, job.job_id] = job  # the newest run of the number
    found = {}
    for (node, pid), number in numbers.items():
        cluster = clusters.get(node)
        told = known.get((cluster or "", number))
        if told is not None and (told.ended_at is None or told.ended_at > at):
            found[node, pid] = told.target
            rows[told.target] = told.pk
        elif told is None and cluster is not None:
            found[node, pid] = f"{cluster}/{number}"
    return found


def _parts(keys: Iterable[_Key]) -> Iterable[list[_Key]]:
    listed = sorted(keys)
    return (listed[first : first + _IN_ONE_QUERY] for first in range(0, len(listed), _IN_ONE_QUERY))
