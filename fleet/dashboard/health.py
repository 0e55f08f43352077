"""How well a GPU is: what the driver counts of errors and recommends, from its newest readings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleet.dashboard import cells, words
from fleet.dashboard.cells import Reasons
from fleet.dashboard.templatetags.units import reading
from wire.metrics import sent

_SHOWN: Final = (
    "recovery_action",
    "remap_failed",
    "remap_pending",
    "ecc_uncorrected_volatile_total",
    "ecc_uncorrected_aggregate_total",
    "ecc_corrected_volatile_total",
    "ecc_corrected_aggregate_total",
    "sram_ecc_threshold_exceeded",
    "remap_uncorrectable_total",
    "remap_correctable_total",
    "nvlink_crc_errors_total",
    "nvlink_replay_errors_total",
    "nvlink_recovery_errors_total",
    "pcie_replays_total",
    "xid_errors_total",
)
_TELLS: Final = ("ecc_", "remap_", "sram_", "nvlink_", "pcie_", "xid_")
_UNITS: Final = ("errors", "rows", "events", "flag", "count")
_KNOWN: Final = {metric.name: metric for metric in sent("gpu")}
SHOWN: Final = tuple(name for name in _SHOWN if name in _KNOWN)
"""Always there, what asks for action first."""
MORE: Final = tuple(
    name
    for name, metric in _KNOWN.items()
    if metric.kind in ("counter", "state") and metric.unit in _UNITS and name.startswith(_TELLS) and name not in _SHOWN
)
"""Whatever else the registry has of errors: a line each once it counts one."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: `text` is a dash where the reading is absent for `reason`; `speaks` where there is something to see to."""

    label: str
    text: str
    reason: str
    speaks: bool


def facts(row: Mapping[str, Any] | None, why: Reasons, gpu_id: int, stale: bool) -> list[Fact]:
    """The lines of one GPU."""
    made = [_fact(cell) for cell in cells.cells("gpu", SHOWN + MORE, row, why, gpu_id, stale)]
    return made[: len(SHOWN)] + [fact for fact in made[len(SHOWN) :] if fact.speaks]


def _fact(cell: cells.Cell) -> Fact:
    text = reading(cell.value, cell.unit)
    if cell.value is not None and cell.metric == "recovery_action":
        text = words.word(words.RECOVERY, f"{cell.value:.0f}")
    elif cell.value is not None and cell.unit == "flag":
        text = str(words.YES if cell.value else words.NO)
    return Fact(cell.label, text, cell.reason, bool(cell.value))
