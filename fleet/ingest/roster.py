"""Hellos become rows: nodes and GPUs appear when an enrolled agent speaks, and go absent when no longer listed."""

import math
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from fleet.ingest.accept import clean
from fleet.inventory.models import Gpu, Node
from wire.messages import GpuFacts, Hello

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


@transaction.atomic
def enrol(hello: Hello, is_current: bool) -> Enrolled:
    """Bring the inventory up to a checked hello.

    Not `is_current`: the hello of an earlier boot, given only so that its backlog can be read. It adds GPUs that
    were never seen and changes nothing else.
    """
    node, created = Node.objects.select_for_update().get_or_create(name=hello.node)
    is_new_boot = is_current and node.boot != hello.boot
    if is_current or created:
        host = hello.host
        node.boot = hello.boot
        node.agent_version = clean(hello.agent_version, 40)
        node.kernel = clean(host.kernel or "", 200)
        node.driver_version = clean(host.driver_version or "", 40)
        node.cuda_driver_version = clean(host.cuda_driver_version or "", 40)
        node.cores = _whole(host.cores, 1 << 20)
        node.mem_total_bytes = _whole(host.mem_total_bytes, _LARGE)
        node.interval_s = hello.interval_s
        node.recording = clean(hello.recording or "", 100)
        node.connected_at = timezone.now()
        node.disconnected_at = None
        node.save()
    known = {gpu.uuid: gpu for gpu in node.gpus.all()}
    new = [
        Gpu(node=node, uuid=facts.uuid, **_facts(facts), present=is_current) for facts in hello.gpus if facts.uuid not in known
    ]
    listed = {facts.uuid for facts in hello.gpus}
    if new:
        _make_room([gpu for gpu in known.values() if gpu.uuid not in listed and (is_current or not gpu.present)])
    Gpu.objects.bulk_create(new)
    known.update({gpu.uuid: gpu for gpu in new})
    if is_current:
        _refresh(hello, known)
        node.gpus.exclude(uuid__in=[facts.uuid for facts in hello.gpus]).filter(present=True).update(present=False)
    return Enrolled(node.pk, tuple(known[facts.uuid].pk for facts in hello.gpus), is_new_boot)


def _make_room(absent: list[Gpu]) -> None:
    """Remove the oldest of these where too many gather, but for those with findings: every change of MIG makes new UUIDs."""
    over = len(absent) - MAX_ABSENT
    if over > 0:
        keys = sorted(gpu.pk for gpu in absent)
        told = Gpu.findings.through.objects.filter(gpu__in=keys)
        kept = set(told.values_list("gpu", flat=True))
        Gpu.objects.filter(pk__in=[key for key in keys if key not in kept][:over]).delete()


def _refresh(hello: Hello, known: dict[str, Gpu]) -> None:
    for facts in hello.gpus:
        gpu = known[facts.uuid]
        wanted = {**_facts(facts), "present": True}
        changed = [name for name, value in wanted.items() if getattr(gpu, name) != value]
        if changed:
            for name in changed:
                setattr(gpu, name, wanted[name])
            gpu.save(update_fields=changed)


def _facts(facts: GpuFacts) -> dict[str, Any]:
    """The columns of a GPU's row; what cannot be is None, as if the device had not said."""
    return {
        "index": facts.index,
        "model": clean(facts.name, 100),
        "pci_bus_id": clean(facts.pci_bus_id or "", 40),
        "compute_capability": clean(facts.compute_capability or "", 10),
        "mem_total_bytes": _whole(facts.mem_total_bytes, _LARGE),
        "power_limit_w": _positive(facts.power_limit_w, 10_000),
        "power_limit_default_w": _positive(facts.power_limit_default_w, 10_000),
        "sm_clock_max_mhz": _positive(facts.sm_clock_max_mhz, 20_000),
        "mem_clock_max_mhz": _positive(facts.mem_clock_max_mhz, 40_000),
        "pcie_link_gen_max": _whole(facts.pcie_link_gen_max, 20),
        "pcie_link_width_max": _whole(facts.pcie_link_width_max, 64),
        "nvlink_links": _whole(facts.nvlink_links, _SMALL, low=0),
        "nvlink_bytes_per_s_per_link": _positive(facts.nvlink_bytes_per_s_per_link, 1e13),
        "mig_mode": facts.mig_mode,
        "parent_uuid": clean(facts.parent_uuid or "", 80),
        "mig_profile": clean(facts.mig_profile or "", 40),
        "mig_gpu_instance": _whole(facts.mig_gpu_instance, _SMALL, low=0),
        "mig_compute_instance": _whole(facts.mig_compute_instance, _SMALL, low=0),
    }


def _whole(value: int | None, high: int, low: int = 1) -> int | None:
    return value if value is not None and low <= value <= high else None


def _positive(value: float | None, high: float) -> float | None:
    return float(value) if value is not None and math.isfinite(value) and 0 < value <= high else None
