"""How much jobs hold or held, in numbers and by their first devices: as short for a job of 8,000 GPUs as for one of 16."""

from collections.abc import Collection, Iterable, Set
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Case, Count, F, Q, QuerySet, When, Window
from django.db.models.functions import RowNumber
from django.utils.translation import gettext, ngettext

from fleet.jobs.devices import stands_for
from fleet.jobs.models import Allocation, Job

FIRST: Final = 16
"""Allocations that are shown of each job."""
NAMED: Final = 5
"""Nodes or devices that a sentence names."""
_IN_ONE_QUERY: Final = 500


@dataclass(frozen=True, slots=True)
class Extent:
    """What one job holds: `first` are the first of its allocations, open ones before ended ones, by node and device; the others count open ones alone,
    but for `allocations_total` and `nodes_total`."""

    first: tuple[Allocation, ...] = ()
    allocations_total: int = 0
    nodes_total: int = 0
    held_total: int = 0
    held_nodes_total: int = 0
    held_unknown_total: int = 0


def extents(jobs: Collection[int]) -> dict[int, Extent]:
    """By job; one that never held anything is left out."""
    found: dict[int, Extent] = {}
    for part in _parts(jobs):
        rows = Allocation.objects.filter(job__in=part)
        held = Q(until_at=None)
        totals: Any = rows.order_by().values("job_id").annotate(
            allocations_total=Count("pk"),
            nodes_total=Count("node_name", distinct=True),
            held_total=Count("pk", filter=held),
            held_nodes_total=Count("node_name", filter=held, distinct=True),
            held_unknown_total=Count("pk", filter=held & Q(gpu=None)),
        )  # fmt: skip
        more = _unnamed(rows.filter(held))
        over = Case(When(until_at=None, then=0), default=1)  # what it holds comes first
        place = Window(RowNumber(), partition_by=F("job"), order_by=(over, "node_name", "device", "from_at"))
        first: dict[int, list[Allocation]] = {}
        for row in rows.annotate(place=place).filter(place__lte=FIRST).select_related("gpu").order_by("job_id", "place"):
            first.setdefault(row.job_id, []).append(row)
        for total in totals:
            job = total.pop("job_id")
            for name in ("held_total", "held_unknown_total"):
                total[name] += more.get(job, 0)
            found[job] = Extent(tuple(first.get(job, ())), **total)
    return found


def _unnamed(rows: QuerySet[Allocation]) -> dict[int, int]:
    """By job the devices that its rows stand for beyond one a row: `gpu:h100:2` is one name of two."""
    found: dict[int, int] = {}
    for job, device in rows.filter(device__startswith="gpu:").values_list("job_id", "device"):
        found[job] = found.get(job, 0) + stands_for(device) - 1
    return found


def doubts(jobs: Collection[Job], nodes: Set[str]) -> dict[int, list[str]]:
    """By job what is odd about the devices that it holds now, in sentences; of single devices those on `nodes`, in small letters, alone.

    Jobs of which nothing is odd are left out.
    """
    found: dict[int, list[str]] = {}
    counted = {job.pk: job.gpus_total for job in jobs if job.gpus_total is not None}
    for part in _parts(counted):
        own = Allocation.objects.filter(job__in=part, until_at=None, shared=False).order_by().values("job_id")
        more = _unnamed(Allocation.objects.filter(job__in=part, until_at=None, shared=False))
        for job, named in own.annotate(total=Count("pk")).values_list("job_id", "total"):
            total = named + more.get(job, 0)
            if total > counted[job]:
                says = gettext(
                    "The job holds {held} devices, and gpus_total is {told}: devices that it has no more, or another count."
                )
                found.setdefault(job, []).append(says.format(held=total, told=counted[job]))
    nowhere: dict[int, dict[str, None]] = {}
    missing: dict[int, dict[str, None]] = {}
    for part in _parts({job.pk for job in jobs} if nodes else ()):
        rows = Allocation.objects.filter(job__in=part, until_at=None, gpu=None).exclude(device__startswith="gpu:")
        for row in rows.order_by("node_name", "device"):
            if row.node_name.lower() in nodes:
                of, what = (nowhere, row.node_name) if row.node_id is None else (missing, f"{row.node_name} {row.device}")
                of.setdefault(row.job_id, {})[what] = None
    for job, hosts in nowhere.items():
        says = ngettext(
            "No agent has told of this node: {names}. Check its name.", "No agent has told of these nodes: {names}. Check their names.", len(hosts)
        )  # fmt: skip
        found.setdefault(job, []).append(says.format(names=_some(hosts)))
    for job, devices in missing.items():
        says = ngettext(
            "Its node lists no such device: {names}. Check its name.", "Their nodes list no such devices: {names}. Check their names.", len(devices)
        )  # fmt: skip
        found.setdefault(job, []).append(says.format(names=_some(devices)))
    return found


def _some(names: Collection[str]) -> str:
    """The first of them, and how many more there are."""
    said = ", ".join([*names][:NAMED])
    more = len(names) - NAMED
    return said if more <= 0 else gettext("{names} and {more} more").format(names=said, more=more)


def _parts(keys: Iterable[int]) -> Iterable[list[int]]:
    listed = sorted(keys)
    return (listed[first : first + _IN_ONE_QUERY] for first in range(0, len(listed), _IN_ONE_QUERY))
