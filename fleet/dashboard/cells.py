"""Values as table cells: each is a reading, or absent with its reason, or unknown because its node is silent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
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
    return Absence.objects.filter(node_id=node_id, until=None).select_related("gpu").order_by("metric", "gpu__index")


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


def absence_rows(absences: Iterable[Absence], gpus: int = 1) -> list[dict[str, Any]]:
    """Absences of one reason on the same GPUs (of `gpus` in all) drawn together: `metrics`, `reason`, `indices`, `since`."""
    indices: dict[tuple[str, str, bool], list[int]] = {}
    since: dict[tuple[str, str, bool], datetime] = {}
    for absence in absences:
        key = (absence.metric, absence.reason, absence.gpu_id is None)
        since[key] = min(absence.since, since.get(key, absence.since))
        indices.setdefault(key, [])
        if absence.gpu is not None:
            indices[key].append(absence.gpu.index)
    rows: dict[tuple[str, tuple[int, ...], bool], dict[str, Any]] = {}
    for (metric, reason, host), of in indices.items():
        row = rows.setdefault(
            (reason, tuple(of), host),
            {
                "metrics": [],
                "reason": words.word(words.REASON, reason),
                "host": host,
                "all": not host and len(of) == gpus,
                "indices": of,
                "since": since[metric, reason, host],
            },
        )
        row["metrics"].append(words.metric(metric, "host" if host else "gpu"))
        row["since"] = min(row["since"], since[metric, reason, host])
    return list(rows.values())
