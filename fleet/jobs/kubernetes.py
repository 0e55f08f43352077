"""Pods as jobs: what each kubelet says of its node's GPUs, told as a scheduler tells its jobs.

A pod that has a GPU is a job from when its node's agent first names it until the GPU is given to another or to nobody. The kubelet
tells no more of it than its name and its namespace: not how it ended, and no user, for which the namespace stands. A GPU whose labels
lack `cluster` is one of which nothing is known, and takes no job its GPU.
"""

import hashlib
import logging
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from django.core.exceptions import ValidationError

from fleet.inventory.models import Gpu, Node
from fleet.jobs.holdings import Given
from fleet.jobs.models import Allocation, Job, cluster_name
from fleet.jobs.telling import TellJobError, Told, tell

log = logging.getLogger(__name__)

SOURCE: Final = "kubernetes"
SILENT: Final = timedelta(days=1)
"""After so long without a word from its node a job is given up; a node that is repaired comes back before."""
_ID_MAX: Final = 200
"""Characters of a job's id; a pod's name and its namespace may have 317."""
_CUT: Final = "…"
_POD: Final = re.compile(r"([a-z0-9][a-z0-9-]{0,62})/([a-z0-9][a-z0-9.-]{0,252})")
"""`namespace/pod`, by Kubernetes' rules for names; what is none is nobody."""
_NAME_MAX: Final = 200
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
"""What Kubernetes makes the ends of names of: apimachinery's util/rand."""
_MADE: Final = (
    re.compile(rf"-[{_SAFE}]{{6,10}}-[{_SAFE}]{{5}}\Z"),  # a Deployment's pod: the hash of its template, then its own
    re.compile(rf"-\d+-[{_SAFE}]{{5}}\Z"),  # a pod of an indexed Job
    re.compile(rf"-[{_SAFE}]{{5}}\Z"),  # a Job's, a DaemonSet's, a ReplicaSet's
    re.compile(r"-\d+\Z"),  # a StatefulSet's, a PyTorchJob's
)

Key = tuple[str, str]
"""Cluster, and the job's id."""


class _Holding(NamedTuple):
    """What one device's labels say."""

    pods: dict[Key, tuple[str, str]]  # namespace and name of each
    is_whole: bool
    shared: bool


def take(node: Node, gpus: Sequence[Gpu], at: datetime) -> list[Job]:
    """The jobs that change by the labels of these GPUs of the node, which its agent told at `at`, as they are written."""
    told = {gpu.pk: _holding(gpu) for gpu in gpus if _cluster(gpu)}
    if not told:
        return []
    uuids = {gpu.pk: gpu.uuid for gpu in gpus}
    runs: dict[Key, Job] = {}
    held: dict[Key, dict[str, bool]] = defaultdict(dict)
    changed: dict[Key, None] = {}
    rows = Allocation.objects.filter(node=node, until_at=None, job__source=SOURCE).select_related("job", "gpu")
    for row in rows.order_by("job__started_at"):
        key = row.job.cluster, row.job.job_id
        runs[key] = row.job
        if _is_given_back(row, key, told):
            changed[key] = None
        else:
            held[key][row.device] = row.shared
    named = {key: pod for holding in told.values() for key, pod in holding.pods.items()}
    for pk, holding in told.items():
        for key in holding.pods:
            if held[key].get(uuids[pk]) != holding.shared:
                held[key][uuids[pk]] = holding.shared
                changed[key] = None
    return [job for key in changed for job in _tell(node, key, runs.get(key) or _lost(key) or named[key], held[key], at)]


def give_up(at: datetime) -> int:
    """How many jobs of nodes that fell silent long ago are `lost` now: nobody saw their end. One whose pod is named again goes on."""
    rows = Allocation.objects.filter(until_at=None, job__source=SOURCE, node__last_seen_at__lt=at - SILENT)
    heard = {row.job: row.node.last_seen_at for row in rows.select_related("job", "node") if row.node is not None}
    gone = [
        Told(
            cluster=job.cluster,
            job_id=job.job_id,
            started_at=job.started_at,
            state="lost",
            ended_at=max(job.started_at, last or at),
        )
        for job, last in heard.items()
    ]
    return len(tell(gone, at))


def _is_given_back(row: Allocation, key: Key, told: Mapping[int, _Holding]) -> bool:
    """True where somebody else has the device now, or nobody, or where there is no such device any more (an instance of MIG)."""
    if row.gpu is None:
        return False
    holding = told.get(row.gpu.pk)
    if holding is None:
        return not row.gpu.present
    return holding.is_whole and key not in holding.pods


def _lost(key: Key) -> Job | None:
    """The pod's newest run, where that is one that was given up."""
    newest = Job.objects.filter(cluster=key[0], job_id=key[1]).order_by("-started_at", "-pk").first()
    return newest if newest is not None and newest.state == "lost" and newest.source == SOURCE else None


def _tell(node: Node, key: Key, run: Job | tuple[str, str], held: dict[str, bool], at: datetime) -> list[Job]:
    """Tell of a run that is open, or of a new one of this pod."""
    cluster, job_id = key
    if isinstance(run, Job):
        at = max(at, run.started_at)
    one = Told(cluster=cluster, job_id=job_id, started_at=run.started_at if isinstance(run, Job) else at)
    if not held:
        one["ended_at"] = at
    else:
        one["allocations"] = [
            Given(node=node.name, devices=[name for name, is_shared in held.items() if is_shared is shared], shared=shared)
            for shared in sorted(set(held.values()))
        ]
        one |= Told(gpus_total=len(held), state="running")
        if not isinstance(run, Job):
            namespace, pod = run
            about = {"namespace": namespace, "pod": pod}
            one |= Told(source=SOURCE, name=owner(pod)[:_NAME_MAX], user=namespace, labels=about)
    try:
        return tell([one], at)
    except TellJobError:
        log.exception("What the kubelet of %s says of %s is left out", node.name, job_id)
        return []


def _cluster(gpu: Gpu) -> str:
    """The Kubernetes that tells of it; empty where none does."""
    name = gpu.labels.get("cluster", "") if isinstance(gpu.labels, dict) else ""
    try:
        cluster_name(name)
    except ValidationError:
        return ""
    return name


def _holding(gpu: Gpu) -> _Holding:
    cluster = _cluster(gpu)
    pods = [pod for pod in gpu.labels.get("pods", "").split(",") if pod]
    named = [(found[1], found[2]) for pod in pods if (found := _POD.fullmatch(pod))]
    return _Holding({(cluster, job_id(*pod)): pod for pod in named}, _CUT not in pods, bool(gpu.labels.get("shared")))


def job_id(namespace: str, pod: str) -> str:
    """`namespace.pod`: a namespace has no dot. One that is too long keeps its beginning, and a hash of the whole."""
    whole = f"{namespace}.{pod}"
    if len(whole) <= _ID_MAX:
        return whole
    return f"{whole[: _ID_MAX - 17]}-{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


def owner(pod: str) -> str:
    """What the pod belongs to, as far as its name says: without what Kubernetes puts behind a Deployment's, a Job's or a set's name."""
    for made in _MADE:
        if (found := made.sub("", pod)) != pod and found:
            return found
    return pod
