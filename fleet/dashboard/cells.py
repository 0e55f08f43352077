"""Values as table cells: each is a reading, or absent with its reason, or unknown because its node is silent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import QuerySet

from fleet.dashboard import words
from fleet.inventory.models import Absence
from wire.metrics import BY_KEY, Scope

GPU_COLUMNS: Final = (
    "gpu_util_pct",
    "sm_active",
    "tensor_active",
    "dram_active",
    "mem_used_bytes",
    "power_w",
    "sm_clock_mhz",
    "temperature_c",
    "pcie_rx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
)
HOST_ROWS: Final = (
    "cpu_busy_cores",
    "cpu_core_max_pct",
    "cpu_iowait_pct",
    "mem_used_bytes",
)
Reasons = Mapping[tuple[int | None, str], str]


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of one thing. `value` None: absent for `reason`."""

    metric: str
    label: str
    unit: str
    value: float | None
    reason: str


def reasons(absences: Iterable[Absence]) -> dict[tuple[int | None, str], str]:
    """Why a metric is absent, by (GPU id or None for the host, metric)."""
    return {(absence.gpu_id, absence.metric): words.word(words.REASON, absence.reason) for absence in absences}


def open_absences(node_id: int) -> QuerySet[Absence]:
    """What the node or its GPUs cannot say at present."""
    return Absence.objects.filter(node_id=node_id, until=None).order_by("metric", "gpu__index")


def cells(
    scope: Scope, names: Iterable[str], row: Mapping[str, Any] | None, why: Reasons, gpu_id: int | None, stale: bool
) -> list[Cell]:
    """One cell for each name. Nothing of a stale row is shown as if it were true now."""
    made = []
    for name in names:
        value = None if stale or row is None else row.get(name)
        if value is not None:
            reason = ""
        elif stale or row is None:
            reason = str(words.NO_NEW_SAMPLE)
        else:
            reason = why.get((gpu_id, name), str(words.NOT_MEASURED))
        made.append(Cell(name, words.metric(name, scope), BY_KEY[f"{scope}.{name}"].unit, value, reason))
    return made
