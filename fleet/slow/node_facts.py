"""Facts of nodes as features, and how mixed the fleet's software is."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import F

from fleet.inventory.models import Gpu, Node
from fleet.jobs.models import Allocation

MOST_MIXED: Final = 8
"""Versions that a mix names."""


@dataclass(frozen=True, slots=True)
class Card:
    """What is read of a GPU's row."""

    pk: int
    node: int
    uuid: str
    index: int
    model: str
    present: bool
    parent_uuid: str
    power_limit_w: float | None
    power_scope: str
    created_at: datetime


def cards(nodes: Iterable[int]) -> list[Card]:
    """The GPUs of these nodes, those too that are not listed any more."""
    fields = ("pk", "node_id", "uuid", "index", "model", "present", "parent_uuid", "power_limit_w", "power_scope", "created_at")
    return [Card(*row) for row in Gpu.objects.filter(node__in=list(nodes)).order_by().values_list(*fields)]


def missing(listed: Iterable[Card]) -> set[int]:
    """The whole cards that their node no longer lists, and that no other card took the place of, nor another node."""
    known = list(listed)
    places = {(card.node, card.index) for card in known if card.present}
    elsewhere = {card.uuid for card in known if card.present}
    return {
        card.pk
        for card in known
        if not card.present and not card.parent_uuid and (card.node, card.index) not in places and card.uuid not in elsewhere
    }


def of_nodes(
    nodes: Iterable[Node],
    listed: Iterable[Card],
    lost: Collection[int],
    persistent: Mapping[int, bool],
    at: datetime | None = None,
) -> dict[int, dict[str, Any]]:
    """The NODE_FACTS of each node; what its agent never told is None."""
    whole: dict[int, list[Card]] = defaultdict(list)
    for card in listed:
        if not card.parent_uuid and (card.present or card.pk in lost):
            whole[card.node].append(card)
    found: dict[int, dict[str, Any]] = {}
    for node in nodes:
        mine = whole[node.pk]
        present = [card for card in mine if card.present and card.pk not in lost]
        modes = [persistent[card.pk] for card in mine if card.pk in persistent]
        found[node.pk] = {
            "node_name": node.name,
            "driver_version": node.driver_version or None,
            "driver_major": _major(node.driver_version),
            "cuda_driver_version": node.cuda_driver_version or None,
            "cuda_driver_major": _major(node.cuda_driver_version),
            "kernel": node.kernel or None,
            "nvidia_module_version": node.nvidia_module_version or None,
            "cpu_governor": node.cpu_governor or None,
            "numa_nodes": len(node.numa_distances) or None,
            "rdma_ready": node.rdma_ready,
            "persistence_mode": all(modes) if modes else None,
            "node_gpus": len(mine),
            "node_gpus_present": len(present),
            "up_s": None if at is None or node.booted_at is None else max(0.0, (at - node.booted_at).total_seconds()),
        }
    return found


def given_and_missing(nodes: Collection[int], lost: Collection[int]) -> dict[int, dict[str, Any]]:
    """By node how many GPUs jobs were given there that its driver does not list, and which jobs; nodes without any are left out.

    Only a card counts that this node once listed, and that is `lost`. A number or a UUID that fits none of its cards says nothing of the
    node: whoever told the job may be wrong, and no healthy node is drained for that.
    """
    rows = Allocation.objects.filter(gpu__present=False, gpu__node=F("node"), until_at=None)
    fields = ("node_id", "gpu_id", "job__cluster", "job__job_id")
    held: dict[int, set[int]] = defaultdict(set)
    jobs: dict[int, set[str]] = defaultdict(set)
    for node, gpu, cluster, number in rows.exclude(job__source="processes").values_list(*fields):
        if node in nodes and gpu in lost:
            held[node].add(gpu)
            jobs[node].add(f"{cluster}/{number}" if cluster else number)
    return {
        node: {"allocated_gpus_missing": len(gpus), "jobs_on_missing": ", ".join(sorted(jobs[node])[:MOST_MIXED])}
        for node, gpus in held.items()
    }


def of_fleet(nodes: Iterable[Node], torch: Iterable[str]) -> dict[str, Any]:
    """The versions of drivers by node and of PyTorch by running process; None where nobody told any."""
    drivers = Counter(node.driver_version for node in nodes if node.driver_version)
    torches = Counter(torch)
    return {
        "driver_versions": len(drivers) or None,
        "driver_mix": _mix(drivers),
        "torch_versions": len(torches) or None,
        "torch_mix": _mix(torches),
    }


def _mix(counts: Counter[str]) -> str | None:
    """Versions with how many have them, most first: `580.65.06: 12, 570.86.15: 3`."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{version}: {count}" for version, count in ordered[:MOST_MIXED]]
    return ", ".join([*named, *(["..."] if len(ordered) > MOST_MIXED else [])]) or None


def _major(version: str) -> int | None:
    first = version.partition(".")[0]
    return int(first) if first.isascii() and first.isdigit() and len(first) < 9 else None
