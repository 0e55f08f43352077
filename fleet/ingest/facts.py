"""What a hello tells of the host, made fit for its row, and what changed since the hello before as events.

An event of ours has no boot (an agent's always has one), and a seq of its own. It reads `name: before → after`; NAMES has the names.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import Max
from django.utils import timezone

from fleet.ingest.accept import clean
from fleet.ingest.skew import OLDEST_T
from fleet.inventory.models import Event, Gpu, Node
from wire.messages import HostFacts
from wire.metrics import REASONS

KIND: Final = "changed"
NAMES: Final = {
    "cpu_governor": "CPU governor",
    "kernel": "Kernel",
    "driver_version": "Driver",
    "cuda_driver_version": "CUDA",
    "nvidia_module_version": "NVIDIA kernel module",
    "cores": "CPU cores",
    "rdma_ready": "GPUDirect RDMA",
    "numa_distances": "NUMA distances",
    "nvidia_parameters": "Module parameter",
    "numa_node": "NUMA node",
    "node": "Node",
}
"""Names of what is told of when it changes."""
_ALWAYS: Final = ("kernel", "driver_version", "cuda_driver_version", "cores")
"""Told by every agent there ever was, where the host has them."""
NEWEST_T: Final = 1e11
MAX_NUMA_NODES: Final = 64
MAX_PARAMETERS: Final = 64
MAX_TOLD: Final = 20
"""Events of one hello; of more changes than this the rest is counted in one."""
_PARAMETER: Final = re.compile(r"[A-Za-z0-9_]{1,60}", re.ASCII)
_FACT: Final = re.compile(r"[a-z0-9_]{1,40}", re.ASCII)
_MAX_FACTS: Final = 32
_SHOWN: Final = 150
_NONE: Final = "–"


def columns(host: HostFacts) -> dict[str, Any]:
    """The columns of a node's row that these facts fill, within bounds: whatever an agent sends, little is kept."""
    return {
        "kernel": clean(host.kernel or "", 200),
        "driver_version": clean(host.driver_version or "", 40),
        "cuda_driver_version": clean(host.cuda_driver_version or "", 40),
        "nvidia_module_version": clean(host.nvidia_module_version or "", 40),
        "nvidia_parameters": _parameters(host.nvidia_parameters),
        "cpu_governor": clean(host.cpu_governor or "", 40),
        "rdma_ready": host.rdma_ready,
        "numa_distances": _distances(host.numa_distances),
        "facts_absent": _absent(host.absent),
        "cores": host.cores if host.cores is not None and 1 <= host.cores <= 1 << 20 else None,
        "mem_total_bytes": host.mem_total_bytes if host.mem_total_bytes and 0 < host.mem_total_bytes <= 1 << 53 else None,
    }


def moment(epoch_s: float | None) -> datetime | None:
    """A time that a node tells, as it is kept; None where it tells none that can be."""
    return datetime.fromtimestamp(epoch_s, UTC) if epoch_s is not None and OLDEST_T <= epoch_s < NEWEST_T else None


def numa_node(host: HostFacts, uuid: str) -> int | None:
    """The NUMA node of a GPU; None where the host does not say, or says what cannot be."""
    node = host.gpu_numa_nodes.get(uuid)
    return node if node is not None and 0 <= node < 4096 else None


def changes(node: Node, told: dict[str, Any]) -> list[tuple[Gpu | None, str]]:
    """What differs between a node's row and `columns` of its new hello, a line each.

    What nobody had told yet is no change when it is told first, as by a newer agent. Parameters of a module that is not loaded
    are not told: the row's stand (they are taken over into `told`), so that what they are after a reload is compared with them.
    """
    found: list[tuple[Gpu | None, str]] = []
    for name in NAMES:
        if name not in told or name == "nvidia_parameters":
            continue
        before, after = getattr(node, name), told[name]
        if before != after and (before or before is False or name in _ALWAYS or name in node.facts_absent):
            found.append((None, _line(NAMES[name], before, after)))
    before, after = node.nvidia_parameters, told["nvidia_parameters"]
    if not after:
        told["nvidia_parameters"] = before
    elif before:
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                found.append((None, _line(f"{NAMES['nvidia_parameters']} {name}", before.get(name), after.get(name))))
    return found


def moved(gpu: Gpu, node: int | None) -> list[tuple[Gpu | None, str]]:
    """The line of a GPU that is on another NUMA node than before."""
    if gpu.numa_node is None or gpu.numa_node == node:
        return []
    return [(gpu, _line(NAMES["numa_node"], gpu.numa_node, node))]


def tell(node: Node, lines: Iterable[tuple[Gpu | None, str]], t: float | None, kind: str = KIND, severity: str = "") -> None:
    """Keep changes as events at epoch second `t`, now where it is None; the caller holds the node's row locked."""
    lines = list(lines)
    if not lines:
        return
    if len(lines) > MAX_TOLD:
        lines = [*lines[: MAX_TOLD - 1], (None, f"{len(lines) - MAX_TOLD + 1} more facts changed")]
    now = timezone.now()
    seq = node.events.filter(boot="").aggregate(last=Max("seq"))["last"]
    at = now if t is None else min(now, datetime.fromtimestamp(t, UTC))
    Event.objects.bulk_create(
        Event(node=node, gpu=gpu, boot="", seq=number, kind=kind, severity=severity, text=text, observed_at=at, handled_at=now)
        for number, (gpu, text) in enumerate(lines, 0 if seq is None else seq + 1)
    )


def _line(name: str, before: object, after: object) -> str:
    return f"{name}: {_shown(before)} → {_shown(after)}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        text = "; ".join(f"{key}: {' '.join(map(str, row))}" for key, row in value.items())
    else:
        text = "" if value is None else str(value)
    return f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text or _NONE


def _parameters(told: Mapping[str, str]) -> dict[str, str]:
    kept = [(name, clean(value, 200)) for name, value in sorted(told.items()) if _PARAMETER.fullmatch(name)]
    return dict(kept[:MAX_PARAMETERS])


def _distances(told: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    """Keys are texts, as JSON gives them back; nothing where a number cannot be a distance."""
    if len(told) > MAX_NUMA_NODES:
        return {}
    for node, row in told.items():
        if not 0 <= node < 4096 or len(row) > MAX_NUMA_NODES or not all(0 < one <= 255 for one in row):
            return {}
    return {str(node): list(row) for node, row in sorted(told.items())}


def _absent(told: Mapping[str, str]) -> dict[str, str]:
    kept = [(name, reason) for name, reason in sorted(told.items()) if _FACT.fullmatch(name) and reason in REASONS]
    return dict(kept[:_MAX_FACTS])
