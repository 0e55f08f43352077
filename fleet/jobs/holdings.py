"""Which devices a job was given, and when they were taken from it: rows of Allocation."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias, TypedDict

from django.db.models import Q

from fleet.inventory.models import Gpu, Node
from fleet.jobs.devices import Cards
from fleet.jobs.hosts import nodes
from fleet.jobs.models import Allocation, Job
from fleet.jobs.signals import held_otherwise
from fleet.jobs.turns import wait_for

LATE: Final = timedelta(days=7)
"""Devices that no agent told of are looked for again so long after they were given back."""


class Given(TypedDict):
    """Devices of one node that a job holds from now on, as fleet.jobs.devices.devices reads them."""

    node: str
    devices: Sequence[str]
    shared: bool


Held: TypeAlias = Mapping[str, Mapping[str, bool]]
"""By node, as its scheduler calls it, the devices that a job holds there, each with whether it is shared."""


def give(job: Job, held: Held, cards: Mapping[str, Cards], at: datetime) -> None:
    """Let the job hold these devices of these nodes and no others there; what it holds elsewhere stays.

    The first that are told of a node were held from the job's start; what comes later, from `at`. An end is final: what is told after
    it was held until then.
    """
    of_node: dict[str, list[Allocation]] = {name.lower(): [] for name in held}
    for row in job.allocations.all() if held else ():
        if (name := row.node_name.lower()) in of_node:
            of_node[name].append(row)
    new: list[Allocation] = []
    changed: list[Allocation] = []
    over: list[int] = []
    before = {row.gpu_id for rows in of_node.values() for row in rows if row.gpu_id is not None}
    for name, devices in held.items():
        over += _give(job, of_node[name.lower()], name, devices, cards[name], at, new, changed)
    Allocation.objects.bulk_create(
        new,
        update_conflicts=True,
        unique_fields=["job", "node_name", "device", "from_at"],
        update_fields=["until_at", "gpu", "node", "shared"],
    )
    Allocation.objects.bulk_update(changed, ["gpu", "node", "shared"])
    for first in range(0, len(over), 500):
        Allocation.objects.filter(pk__in=over[first : first + 500]).update(until_at=max(at, job.started_at))
    _say(job.pk, [*new, *changed], before)


def _say(job: int, rows: Sequence[Allocation], gpus: Collection[int] = ()) -> None:
    """Tell others of the time that these rows, new or corrected, are of; `gpus`: those that they named before."""
    if rows:
        ends = [row.until_at for row in rows]
        until = None if None in ends else max(end for end in ends if end is not None)
        held_otherwise.send(Allocation, job=job, since=min(row.from_at for row in rows), until=until, gpus=gpus)


def _give(
    job: Job,
    rows: Collection[Allocation],
    name: str,
    devices: Mapping[str, bool],
    cards: Cards,
    at: datetime,
    new: list[Allocation],
    changed: list[Allocation],
) -> list[int]:
    """The rows of one node that end now; what is to be made and changed there is added to `new` and `changed`."""
    still = {row.device: row for row in rows if row.until_at == job.ended_at}
    since = max(at, job.started_at) if rows and job.ended_at is None else job.started_at
    node = cards.node
    told: set[int] = set()
    for device, shared in devices.items():
        gpu = cards.find(device)
        if gpu is not None and gpu.pk in told:
            continue  # one card under two names
        if gpu is not None:
            told.add(gpu.pk)
        row = still.pop(device, None) or _by_gpu(still, gpu)
        is_new = row is None
        if row is None:
            row = Allocation(job=job, node_name=name, device=device, from_at=since, until_at=job.ended_at)
        wanted = gpu.pk if gpu is not None else row.gpu_id, node.pk if node is not None else row.node_id, shared
        if is_new or (row.gpu_id, row.node_id, row.shared) != wanted:
            row.gpu_id, row.node_id, row.shared = wanted
            (new if is_new else changed).append(row)
    return [row.pk for row in still.values()] if job.ended_at is None else []


def _by_gpu(rows: dict[str, Allocation], gpu: Gpu | None) -> Allocation | None:
    """The row of the same GPU under another name: told by its index first, by its UUID then."""
    name = next((name for name, row in rows.items() if gpu is not None and row.gpu_id == gpu.pk), None)
    return rows.pop(name) if name is not None else None


def take_all(job: Job, ended_before: datetime | None) -> None:
    """End what the job holds with the job; where its end was told otherwise before (`ended_before`), put that right."""
    ends = [end for end in (ended_before, job.ended_at) if end is not None]
    if ends:  # before any row goes
        held_otherwise.send(Allocation, job=job.pk, since=min(ends), until=max(ends) if len(ends) > 1 else None, gpus=())
    job.allocations.filter(until_at=ended_before).update(until_at=job.ended_at)
    if job.ended_at is not None:
        job.allocations.filter(from_at__gt=job.ended_at).delete()
        job.allocations.filter(until_at__gt=job.ended_at).update(until_at=job.ended_at)


def resolve(node: Node, at: datetime) -> int:
    """How many devices that were told of the node before its agent spoke are GPUs now."""
    short, dot, _domain = node.name.partition(".")
    called = Q(node_name__iexact=node.name)
    called |= Q(node_name__iexact=short) if dot else Q(node_name__istartswith=f"{node.name}.")
    still = Q(until_at=None) | Q(until_at__gte=at - LATE)
    unknown = Allocation.objects.filter(called, still, gpu=None)
    wait_for(unknown.order_by().values_list("job__cluster", "job__job_id").distinct())
    rows = list(unknown)
    if not rows:
        return 0
    meant = nodes(row.node_name for row in rows)  # of two nodes whose names differ in the domain alone, neither
    rows = [row for row in rows if meant.get(row.node_name) == node]
    cards = Cards(Gpu.objects.filter(node=node), node)
    for row in rows:
        row.node, row.gpu = node, cards.find(row.device)
    Allocation.objects.bulk_update(rows, ["node", "gpu"])
    for job in {row.job_id for row in rows if row.gpu is not None}:
        _say(job, [row for row in rows if row.job_id == job and row.gpu is not None])
    return sum(row.gpu is not None for row in rows)
