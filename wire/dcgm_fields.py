"""DCGM's fields: every name that a field has had, and the unit it is given in.

From `dcgmlib/dcgm_fields.h` of DCGM 2.2.6 to 4.6.0 (https://github.com/NVIDIA/DCGM), which renamed most of them in 4.6; the
exporter's metrics bear the names of its own counters file, so that old and new ones are met for years. Units are
the header's; what it calls MB is 2^20 bytes. An exporter's TYPE and HELP are not asked: one calls a rate a counter (field 449), the last
XID a gauge.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from wire.metrics import METRICS, Metric


class Field(NamedTuple):
    """One name of one field: its id and the unit that it is given in."""

    id: int
    unit: str


_FIELDS: Final[tuple[tuple[int, str, tuple[str, ...]], ...]] = (
    # identifier, unit, names under DCGM_FI_: the one of 4.6 first
    (67, "code", ("DEV_MIG_MODE",)),
    (90, "mib", ("DEV_BAR1_TOTAL",)),
    (92, "mib", ("DEV_BAR1_USED",)),
    (93, "mib", ("DEV_BAR1_FREE",)),
    (100, "megahertz", ("DEV_SM_CLOCK",)),
    (101, "megahertz", ("DEV_MEM_CLOCK",)),
    (102, "megahertz", ("DEV_VIDEO_CLOCK",)),
    (110, "megahertz", ("DEV_APP_SM_CLOCK",)),
    (111, "megahertz", ("DEV_APP_MEM_CLOCK",)),
    (112, "bits", ("DEV_CLOCKS_EVENT_REASONS", "DEV_CLOCK_THROTTLE_REASONS")),
    (113, "megahertz", ("DEV_MAX_SM_CLOCK",)),
    (114, "megahertz", ("DEV_MAX_MEM_CLOCK",)),
    (115, "megahertz", ("DEV_MAX_VIDEO_CLOCK",)),
    (140, "celsius", ("DEV_MEMORY_TEMP_CELSIUS", "DEV_MEMORY_TEMP")),
    (150, "celsius", ("DEV_GPU_TEMP_CELSIUS", "DEV_GPU_TEMP")),
    (151, "celsius", ("DEV_MEMORY_MAX_OP_TEMP_CELSIUS", "DEV_MEM_MAX_OP_TEMP")),
    (152, "celsius", ("DEV_GPU_MAX_OP_TEMP_CELSIUS", "DEV_GPU_MAX_OP_TEMP")),
    (153, "celsius", ("DEV_GPU_TEMP_MARGIN_CELSIUS", "DEV_GPU_TEMP_LIMIT")),
    (155, "watts", ("DEV_BOARD_POWER_WATTS", "DEV_POWER_USAGE")),
    (156, "mj", ("DEV_TOTAL_ENERGY_CONSUMPTION",)),
    (156, "joules", ("DEV_GPU_ENERGY_JOULES_TOTAL",)),  # field 1611 of 4.7: the same counter in joules
    (157, "watts", ("DEV_BOARD_POWER_RAW_WATTS", "DEV_POWER_USAGE_INSTANT")),
    (158, "celsius", ("DEV_GPU_TEMP_SLOWDOWN_CELSIUS", "DEV_SLOWDOWN_TEMP")),
    (159, "celsius", ("DEV_GPU_TEMP_SHUTDOWN_CELSIUS", "DEV_SHUTDOWN_TEMP")),
    (160, "watts", ("DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS", "DEV_POWER_MGMT_LIMIT")),
    (161, "watts", ("DEV_BOARD_POWER_LIMIT_MIN_WATTS", "DEV_POWER_MGMT_LIMIT_MIN")),
    (162, "watts", ("DEV_BOARD_POWER_LIMIT_MAX_WATTS", "DEV_POWER_MGMT_LIMIT_MAX")),
    (163, "watts", ("DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS", "DEV_POWER_MGMT_LIMIT_DEF")),
    (164, "watts", ("DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS", "DEV_ENFORCED_POWER_LIMIT")),
    (190, "code", ("DEV_GPU_PSTATE", "DEV_PSTATE")),
    (191, "percent", ("DEV_FAN_SPEED",)),
    (202, "events", ("DEV_PCIE_REPLAY_TOTAL", "DEV_PCIE_REPLAY_COUNTER")),
    (203, "percent", ("DEV_GPU_UTIL",)),
    # 4.6 gave field 203 this name and still wrote 0 to 100; 4.7 gave it to field 1613, a true ratio
    (203, "percent_or_ratio", ("DEV_GPU_UTIL_RATIO",)),
    (204, "percent", ("DEV_MEM_COPY_UTIL",)),
    (206, "percent", ("DEV_ENC_UTIL",)),
    (207, "percent", ("DEV_DEC_UTIL",)),
    (230, "code", ("DEV_XID_ERROR", "DEV_XID_ERRORS")),
    (235, "code", ("DEV_PCIE_MAX_LINK_GEN",)),
    (236, "lanes", ("DEV_PCIE_MAX_LINK_WIDTH",)),
    (237, "code", ("DEV_PCIE_LINK_GEN",)),
    (238, "lanes", ("DEV_PCIE_LINK_WIDTH",)),
    (240, "ns", ("DEV_POWER_VIOLATION",)),
    (241, "ns", ("DEV_THERMAL_VIOLATION",)),
    (242, "ns", ("DEV_SYNC_BOOST_VIOLATION",)),
    (243, "ns", ("DEV_BOARD_LIMIT_VIOLATION",)),
    (244, "ns", ("DEV_LOW_UTIL_VIOLATION",)),
    (245, "ns", ("DEV_RELIABILITY_VIOLATION",)),
    (250, "mib", ("DEV_FB_TOTAL",)),
    (251, "mib", ("DEV_FB_FREE",)),
    (252, "mib", ("DEV_FB_USED",)),
    (253, "mib", ("DEV_FB_RESERVED",)),
    (300, "code", ("DEV_ECC_MODE", "DEV_ECC_CURRENT")),
    (310, "errors", ("DEV_ECC_SBE_VOL_TOTAL",)),
    (311, "errors", ("DEV_ECC_DBE_VOL_TOTAL",)),
    (312, "errors", ("DEV_ECC_SBE_AGG_TOTAL",)),
    (313, "errors", ("DEV_ECC_DBE_AGG_TOTAL",)),
    (342, "errors", ("DEV_ECC_SBE_VOL_SRM",)),
    (343, "errors", ("DEV_ECC_DBE_VOL_SRM",)),
    (344, "errors", ("DEV_ECC_SBE_AGG_SRM",)),
    (345, "errors", ("DEV_ECC_DBE_AGG_SRM",)),
    (346, "flag", ("DEV_SRAM_EXCEEDED", "DEV_THRESHOLD_SRM")),
    (385, "banks", ("DEV_BANK_REMAP_AVAIL_MAX", "DEV_BANKS_REMAP_ROWS_AVAIL_MAX")),
    (386, "banks", ("DEV_BANK_REMAP_AVAIL_HIGH", "DEV_BANKS_REMAP_ROWS_AVAIL_HIGH")),
    (387, "banks", ("DEV_BANK_REMAP_AVAIL_PARTIAL", "DEV_BANKS_REMAP_ROWS_AVAIL_PARTIAL")),
    (388, "banks", ("DEV_BANK_REMAP_AVAIL_LOW", "DEV_BANKS_REMAP_ROWS_AVAIL_LOW")),
    (389, "banks", ("DEV_BANK_REMAP_AVAIL_NONE", "DEV_BANKS_REMAP_ROWS_AVAIL_NONE")),
    (390, "pages", ("DEV_PAGE_RETIRED_SBE_TOTAL", "DEV_RETIRED_SBE")),
    (391, "pages", ("DEV_PAGE_RETIRED_DBE_TOTAL", "DEV_RETIRED_DBE")),
    (392, "pages", ("DEV_PAGE_RETIRED_PENDING", "DEV_RETIRED_PENDING")),
    (393, "rows", ("DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", "DEV_UNCORRECTABLE_REMAPPED_ROWS")),
    (394, "rows", ("DEV_ROW_REMAP_CORRECTABLE_TOTAL", "DEV_CORRECTABLE_REMAPPED_ROWS")),
    (395, "flag", ("DEV_ROW_REMAP_FAILED", "DEV_ROW_REMAP_FAILURE")),
    (396, "flag", ("DEV_ROW_REMAP_PENDING",)),
    (409, "errors", ("DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", "DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL")),
    (419, "errors", ("DEV_NVLINK_CRC_DATA_ERROR_TOTAL", "DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL")),
    (429, "errors", ("DEV_NVLINK_REPLAY_ERROR_TOTAL", "DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL")),
    (439, "errors", ("DEV_NVLINK_RECOVERY_ERROR_TOTAL", "DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL")),
    (1001, "ratio", ("PROF_GR_ENGINE_UTIL_RATIO", "PROF_GR_ENGINE_ACTIVE")),
    (1002, "ratio", ("PROF_SM_UTIL_RATIO", "PROF_SM_ACTIVE")),
    (1003, "ratio", ("PROF_SM_OCCUPANCY_RATIO", "PROF_SM_OCCUPANCY")),
    (1004, "ratio", ("PROF_TENSOR_UTIL_RATIO", "PROF_PIPE_TENSOR_ACTIVE")),
    (1005, "ratio", ("PROF_DRAM_UTIL_RATIO", "PROF_DRAM_ACTIVE")),
    (1006, "ratio", ("PROF_FP64_UTIL_RATIO", "PROF_PIPE_FP64_ACTIVE")),
    (1007, "ratio", ("PROF_FP32_UTIL_RATIO", "PROF_PIPE_FP32_ACTIVE")),
    (1008, "ratio", ("PROF_FP16_UTIL_RATIO", "PROF_PIPE_FP16_ACTIVE")),
    (1009, "bytes_per_second", ("PROF_PCIE_TX_BYTES",)),
    (1010, "bytes_per_second", ("PROF_PCIE_RX_BYTES",)),
    (1011, "bytes_per_second", ("PROF_NVLINK_TX_BYTES",)),
    (1012, "bytes_per_second", ("PROF_NVLINK_RX_BYTES",)),
    (1013, "ratio", ("PROF_IMMA_UTIL_RATIO", "PROF_PIPE_TENSOR_IMMA_ACTIVE")),
    (1014, "ratio", ("PROF_HMMA_UTIL_RATIO", "PROF_PIPE_TENSOR_HMMA_ACTIVE")),
    (1015, "ratio", ("PROF_DFMA_UTIL_RATIO", "PROF_PIPE_TENSOR_DFMA_ACTIVE")),
    (1016, "ratio", ("PROF_INT_UTIL_RATIO", "PROF_PIPE_INT_ACTIVE")),
    (1420, "ns", ("DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS",)),
    (1421, "ns", ("DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS",)),
    (1422, "ns", ("DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS",)),
    (1423, "ns", ("DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",)),
    (1424, "ns", ("DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS",)),
    (1501, "errors", ("DEV_PCIE_CORRECTABLE_ERROR_TOTAL", "DEV_PCIE_COUNT_CORRECTABLE_ERRORS")),
    (1507, "flag", ("DEV_MEMORY_UNREPAIRABLE", "DEV_MEMORY_UNREPAIRABLE_FLAG")),
    (1523, "code", ("DEV_GPU_RECOVERY_ACTION", "DEV_GET_GPU_RECOVERY_ACTION")),
)

BY_NAME: Final[dict[str, Field]] = {f"DCGM_FI_{name}": Field(number, unit) for number, unit, names in _FIELDS for name in names}
"""Every name, old and new, with its field and unit."""
FP64_BLANK: Final = 140737488355328.0
INT32_BLANK: Final = 0x7FFFFFF0
INT64_BLANK: Final = 0x7FFFFFFFFFFFFFF0
"""Where the numbers begin that mean "no value"; each begins sixteen of them, and a float holds nothing above the last apart."""
MIG_MODE: Final = 67
FB_FREE: Final = 251
XID: Final = 230
_SCALES: Final = {
    ("mib", "bytes"): 1 << 20,
    ("mj", "joules"): 1e-3,
    ("ns", "seconds"): 1e-9,
    ("ns", "nanoseconds"): 1,
    ("ratio", "percent"): 100,
    ("percent", "ratio"): 0.01,
    ("percent_or_ratio", "percent"): 1,  # settled for each exporter by what it writes
}
_COUNTS: Final = {"errors", "events", "rows", "pages", "banks", "code", "flag", "bits", "lanes", "retries", "replays"}
"""Units that count or name something: a code is a code whatever the registry calls it."""


def scale(unit: str, metric: Metric) -> float | None:
    """What turns a number in DCGM's `unit` into one in the metric's; None where nothing does, and the number is refused."""
    if unit == metric.unit or (unit in _COUNTS and metric.unit in _COUNTS):
        return 1
    return _SCALES.get((unit, metric.unit))


def metric_of(number: int) -> Metric | None:
    """The registry's metric of a field id; None where it has none."""
    return _METRICS.get(number)


def metrics() -> Mapping[int, Metric]:
    """The registry's metrics by field id."""
    return _METRICS


_METRICS: Final = {metric.dcgm: metric for metric in METRICS if metric.dcgm is not None and metric.scope == "gpu"}


STARTS: Final = tuple(
    sorted(name for name, field in BY_NAME.items() if field.id in _METRICS or field.id in (FB_FREE, XID, MIG_MODE))
)
"""Beginnings of the lines that are read; the rest of an answer is not parsed."""


def names(number: int) -> tuple[str, ...]:
    """Every name of a field, the newest first; none where the field is not known here."""
    return tuple(name for name, field in BY_NAME.items() if field.id == number)
