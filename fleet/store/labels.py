"""The labels of series, as people know things: dcgm-exporter's names for nodes and GPUs, read from the inventory."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from fleet.inventory.models import Engine, Gpu, Node
from wire.metrics import Scope

KEPT_S: Final = 300
"""A node that gets another name or a GPU another index has new series after so long."""


class Labels:
    """Labels by scope and entity, read once and again every KEPT_S, or as soon as one is asked for that was not there."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, dict[int, dict[str, str]]] = {}
        self._read_at: dict[str, float] = {}

    def __call__(self, scope: Scope, entities: Collection[int]) -> Mapping[int, Mapping[str, str]]:
        """The labels of these entities; one that the inventory lacks has none."""
        kind = {"host": "host", "engine": "engine"}.get(scope, "gpu")
        known, now = self._known.get(kind, {}), self._clock()
        if now - self._read_at.get(kind, float("-inf")) >= KEPT_S or any(entity not in known for entity in entities):
            known = _READERS[kind]()
            known |= {entity: {} for entity in entities if entity not in known}  # not asked for again with every write
            self._known[kind], self._read_at[kind] = known, now
        return known


def _gpus() -> dict[int, dict[str, str]]:
    found = {}
    for gpu in Gpu.objects.select_related("node").only(
        "uuid", "index", "model", "pci_bus_id", "mig_profile", "mig_gpu_instance", "parent_uuid", "node__name"
    ):
        found[gpu.pk] = {
            "Hostname": gpu.node.name,
            "UUID": gpu.parent_uuid or gpu.uuid,
            "gpu": str(gpu.index),
            "modelName": gpu.model,
            "pci_bus_id": gpu.pci_bus_id,
            "GPU_I_PROFILE": gpu.mig_profile,
            "GPU_I_ID": "" if gpu.mig_gpu_instance is None else str(gpu.mig_gpu_instance),
        }
    return found


def _hosts() -> dict[int, dict[str, str]]:
    return {pk: {"Hostname": name} for pk, name in Node.objects.values_list("pk", "name")}


def _engines() -> dict[int, dict[str, str]]:
    rows = Engine.objects.values_list("pk", "name", "kind", "model", "node__name")
    return {pk: {"engine": name, "kind": kind, "model": model, "Hostname": node} for pk, name, kind, model, node in rows}


_READERS: Final[Mapping[str, Callable[[], dict[int, dict[str, str]]]]] = {"gpu": _gpus, "host": _hosts, "engine": _engines}
