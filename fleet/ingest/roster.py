"""Hellos become rows: nodes and GPUs appear when an enrolled agent speaks, and go absent when no longer listed."""

import math
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from fleet.ingest import facts, whereabouts
from fleet.ingest.accept import clean
from fleet.ingest.whereabouts import Elsewhere
from fleet.inventory.models import Gpu, Node
from fleet.jobs import holdings
from wire.messages import GpuFacts, Hello, HostFacts

MAX_ABSENT: Final = 64
"""GPUs of a node that it no longer lists; beyond it the oldest of them go when new ones come."""
_SMALL: Final = (1 << 15) - 1
_LARGE: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The rows of one hello: the GPUs' ids in the hello's order."""

    node: int
    gpus: tuple[int, ...]
    is_new_boot: bool
    elsewhere: Elsewhere | None = None
    has_moved: bool = False
    """Another process had it before: what this one remembers of it is old."""


@transaction.atomic
def enrol(hello: Hello, is_current: bool, process: str, yields: bool = False) -> Enrolled:
    """Bring the inventory up to a checked hello, taken in by `process`.

    Not `is_current`: the hello of an earlier boot, given only so that its backlog can be read. It adds GPUs that
    were never seen and changes nothing else. `yields`: nor is it where another boot of the node speaks to another process.
    """
    # no_key: what a scheduler tells of the node refers to it, and need not wait
    node, created = Node.objects.select_for_update(no_key=True).get_or_create(name=hello.node)
    elsewhere = whereabouts.of(node) if yields and node.served_by != process and node.boot != hello.boot else None
    is_current = is_current and elsewhere is None
    has_moved = is_current and node.served_by not in ("", process)
    changed: list[tuple[Gpu | None, str]] = []
    is_new_boot = is_current and node.boot != hello.boot
    if is_current or created:
        told = facts.columns(hello.host)
        if is_current and not created and not hello.recording and not node.recording:
            changed += facts.changes(node, told)
        for name, value in told.items():
            setattr(node, name, value)
        node.boot = hello.boot
        node.booted_at = facts.moment(hello.host.booted_at)
        node.agent_version = clean(hello.agent_version, 40)
        node.interval_s = hello.interval_s
        node.served_by = process
        node.recording = clean(hello.recording or "", 100)
        node.source = ""
        node.connected_at = timezone.now()
        node.disconnected_at = None
        node.said_bye_at = None
        node.save()
    known = {gpu.uuid: gpu for gpu in node.gpus.all()}
    new = [
        Gpu(node=node, uuid=gpu.uuid, **_columns(gpu, hello.host), present=is_current)
        for gpu in hello.gpus
        if gpu.uuid not in known
    ]
    listed = {gpu.uuid for gpu in hello.gpus}
    if new:
        _make_room([gpu for gpu in known.values() if gpu.uuid not in listed and (is_current or not gpu.present)])
    Gpu.objects.bulk_create(new)
    known.update({gpu.uuid: gpu for gpu in new})
    if new:
        holdings.resolve(node, timezone.now())
    if is_current:
        changed += _refresh(hello, known)
        node.gpus.exclude(uuid__in=listed).filter(present=True).update(present=False)
        facts.tell(node, changed, None)
    return Enrolled(node.pk, tuple(known[gpu.uuid].pk for gpu in hello.gpus), is_new_boot, elsewhere, has_moved)


def _make_room(absent: list[Gpu]) -> None:
    """Remove the oldest of these where too many gather, but for those with findings: every change of MIG makes new UUIDs."""
    over = len(absent) - MAX_ABSENT
    if over > 0:
        keys = sorted(gpu.pk for gpu in absent)
        told = Gpu.findings.through.objects.filter(gpu__in=keys)
        kept = set(told.values_list("gpu", flat=True))
        Gpu.objects.filter(pk__in=[key for key in keys if key not in kept][:over]).delete()


def _refresh(hello: Hello, known: dict[str, Gpu]) -> list[tuple[Gpu | None, str]]:
    """Bring the GPUs' rows up to the hello; which of them moved to another NUMA node."""
    moved: list[tuple[Gpu | None, str]] = []
    for told in hello.gpus:
        gpu = known[told.uuid]
        wanted = {**_columns(told, hello.host), "present": True}
        changed = [name for name, value in wanted.items() if getattr(gpu, name) != value]
        if changed:
            moved += facts.moved(gpu, wanted["numa_node"])
            for name in changed:
                setattr(gpu, name, wanted[name])
            gpu.save(update_fields=changed)
    return moved


def _columns(told: GpuFacts, host: HostFacts) -> dict[str, Any]:
    """The columns of a GPU's row; what cannot be is None, as if the device had not said."""
    return {
        "index": told.index,
        "model": clean(told.name, 100),
        "pci_bus_id": clean(told.pci_bus_id or "", 40),
        "compute_capability": clean(told.compute_capability or "", 10),
        "mem_total_bytes": _whole(told.mem_total_bytes, _LARGE),
        "power_limit_w": _positive(told.power_limit_w, 10_000),
        "power_limit_default_w": _positive(told.power_limit_default_w, 10_000),
        "sm_clock_max_mhz": _positive(told.sm_clock_max_mhz, 20_000),
        "mem_clock_max_mhz": _positive(told.mem_clock_max_mhz, 40_000),
        "pcie_link_gen_max": _whole(told.pcie_link_gen_max, 20),
        "pcie_link_width_max": _whole(told.pcie_link_width_max, 64),
        "nvlink_links": _whole(told.nvlink_links, _SMALL, low=0),
        "nvlink_bytes_per_s_per_link": _positive(told.nvlink_bytes_per_s_per_link, 1e13),
        "mig_mode": told.mig_mode,
        "parent_uuid": clean(told.parent_uuid or "", 80),
        "mig_profile": clean(told.mig_profile or "", 40),
        "mig_gpu_instance": _whole(told.mig_gpu_instance, _SMALL, low=0),
        "mig_compute_instance": _whole(told.mig_compute_instance, _SMALL, low=0),
        "memory_kind": told.memory_kind if told.memory_kind in ("own", "unified") else "",
        "power_scope": told.power_scope if told.power_scope in ("gpu", "module") else "",
        "power_average_s": told.power_average_s if told.power_average_s is not None and 0 <= told.power_average_s <= 60 else None,
        "accounting_mode": told.accounting_mode,
        "numa_node": facts.numa_node(host, told.uuid),
    }


def _whole(value: int | None, high: int, low: int = 1) -> int | None:
    return value if value is not None and low <= value <= high else None


def _positive(value: float | None, high: float) -> float | None:
    return float(value) if value is not None and math.isfinite(value) and 0 < value <= high else None
