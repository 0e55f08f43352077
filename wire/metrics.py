"""METRICS: the one registry of everything Fettle measures.

Collectors, codec, store, API, charts, docs and the Prometheus output read this table; adding a metric is
adding a row. Names are the field's own terms with the unit last; values are in the unit that the name says.
NVML costs and answers behind the choice of source were measured on an H200 (docs/reference/metrics.md).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Scope: TypeAlias = Literal["gpu", "host", "process", "engine"]
Kind: TypeAlias = Literal["gauge", "mean", "counter", "bitmask", "state", "vector"]
"""gauge: at this instant; mean: over the interval since the sample before; counter: grows until a reset;
bitmask: one flag a bit; state: a code, never averaged; vector: one value a core, kept on the node."""
Cadence: TypeAlias = Literal["fast", "slow", "rare", "static"]
"""fast: with each tick; slow: every 15 s; rare: every minute, what costs the driver much and is waited for by nobody;
static: at the start, and after the driver was opened anew. What is not read keeps its value."""
Number: TypeAlias = int | float

REASONS: Final = (
    "unsupported",  # this device, driver or mode cannot answer
    "not_permitted",  # it could, this user may not ask
    "not_found",  # the thing asked about is not there (no process, no instance)
    "not_a_number",  # text, NaN or infinity where a number belongs
    "blank",  # a sentinel that means "no value" (DCGM blanks, all ones)
    "out_of_range",  # outside what the metric can physically be
    "no_previous",  # a rate or mean needs an earlier sample
    "timeout",  # the driver did not answer in time
    "gpu_lost",  # the GPU fell off the bus
    "profiler_busy",  # another profiler holds the counters
    "switched_off",  # the driver would tell, were it told to keep it
    "paused",  # let go on command, until its time is over
    "frozen",  # it stands still though it cannot: the source tells what it knew some time ago
    "driver_error",  # any other error of the driver
    "not_recorded",  # a recording lacks it
)


@dataclass(frozen=True, slots=True)
class Nvml:
    """A plain NVML call: `call(handle, *args)`, then a `member` of its struct or list, then `scale`.

    `struct` names the nvidia-ml-py struct that the call fills, where it does not make one itself.
    """

    call: str
    args: tuple[int | str, ...] = ()  # a str names a constant of the nvidia-ml-py module
    member: str | int | None = None
    scale: float = 1
    struct: str | None = None


@dataclass(frozen=True, slots=True)
class NvmlField:
    """A field value (`nvmlDeviceGetFieldValues`), read together with all others in one call."""

    field_id: int
    scale: float = 1
    scope: int = 0  # of a link's fields: the link, or ALL_LINKS


@dataclass(frozen=True, slots=True)
class NvmlLinks:
    """How many of the GPU's NVLinks answer 1 to `call(handle, link)`."""

    call: str


@dataclass(frozen=True, slots=True)
class Gpm:
    """A GPM metric: a mean between two GPM samples; NVML answers in percent or MiB/s."""

    metric_id: int
    scale: float = 0.01


@dataclass(frozen=True, slots=True)
class Proc:
    """A file under /proc or /sys, or a figure derived from one."""

    path: str


@dataclass(frozen=True, slots=True)
class Scraped:
    """Metrics of serving engines, one name an engine: agents/engine_metrics.py says how each is read."""

    what: str


@dataclass(frozen=True, slots=True)
class Reported:
    """What a program tells of itself through `fettle_report`, by the name that its datagrams have for it."""

    what: str


@dataclass(frozen=True, slots=True)
class Accounted:
    """What NVML's accounting keeps of a process on one GPU, where it is switched on; of several GPUs the largest."""

    member: str


Source: TypeAlias = Nvml | NvmlField | NvmlLinks | Gpm | Proc | Scraped | Reported | Accounted


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the registry. `low` and `high` bound what is physically possible, both inclusive."""

    name: str
    scope: Scope
    kind: Kind
    unit: str
    low: float
    high: float
    help: str
    source: Source | None = None
    dcgm: int | None = None
    cadence: Cadence = "fast"
    kept: bool = True  # False: shown on the node and recorded, not sent to the server
    otherwise: NvmlField | None = None  # asked where the device does not know `source`

    @property
    def key(self) -> str:
        """`scope.name`: unique over the registry; a bare name is unique within its scope."""
        return f"{self.scope}.{self.name}"

    @property
    def is_integer(self) -> bool:
        """True where fractions carry no meaning: bitmasks, states and whole bytes."""
        return self.kind in ("bitmask", "state") or (self.unit == "bytes" and self.kind != "mean")


_BYTES = float(1 << 53)  # counters stay exact in a float64
_LINK = 4e12
ALL_LINKS: Final = 0xFFFFFFFF

# fmt: off
METRICS: Final[tuple[Metric, ...]] = (
    # GPU: utilisation and memory
    Metric("gpu_util_pct", "gpu", "mean", "percent", 0, 100, "Share of time with at least one kernel resident; says nothing of how full the GPU is.", Nvml("nvmlDeviceGetUtilizationRates", member="gpu"), 203),
    Metric("mem_copy_util_pct", "gpu", "mean", "percent", 0, 100, "Share of time in which device memory was read or written.", Nvml("nvmlDeviceGetUtilizationRates", member="memory"), 204),
    Metric("mem_used_bytes", "gpu", "gauge", "bytes", 0, 1 << 43, "Device memory in use, what the driver reserves left out.", Nvml("nvmlDeviceGetMemoryInfo", ("nvmlMemory_v2",), "used"), 252),
    Metric("mem_total_bytes", "gpu", "gauge", "bytes", 1, 1 << 43, "Device memory in all.", Nvml("nvmlDeviceGetMemoryInfo", ("nvmlMemory_v2",), "total"), 250),
    Metric("mem_reserved_bytes", "gpu", "gauge", "bytes", 0, 1 << 43, "Device memory that the driver keeps for itself.", Nvml("nvmlDeviceGetMemoryInfo", ("nvmlMemory_v2",), "reserved"), 253),
    Metric("bar1_used_bytes", "gpu", "gauge", "bytes", 0, 1 << 43, "Window through which the host and peers see device memory (BAR1): in use.", Nvml("nvmlDeviceGetBAR1MemoryInfo", member="bar1Used"), 92, "rare"),
    Metric("bar1_total_bytes", "gpu", "gauge", "bytes", 0, 1 << 43, "BAR1 in all.", Nvml("nvmlDeviceGetBAR1MemoryInfo", member="bar1Total"), 90, "rare"),
    Metric("nvdec_util_pct", "gpu", "mean", "percent", 0, 100, "Use of the video decoders, over the driver's own sampling period.", Nvml("nvmlDeviceGetDecoderUtilization", member=0), 207),
    Metric("nvenc_util_pct", "gpu", "mean", "percent", 0, 100, "Use of the video encoders, over the driver's own sampling period; 0 on cards that have none.", Nvml("nvmlDeviceGetEncoderUtilization", member=0), 206),
    Metric("nvjpg_util_pct", "gpu", "mean", "percent", 0, 100, "Use of the JPEG decoders, over the driver's own sampling period.", Nvml("nvmlDeviceGetJpgUtilization", member=0)),
    # GPU: temperature, power, clocks
    Metric("temperature_c", "gpu", "gauge", "celsius", -40, 150, "Temperature of the GPU die.", Nvml("nvmlDeviceGetTemperature", ("NVML_TEMPERATURE_GPU",)), 150),
    Metric("memory_temperature_c", "gpu", "gauge", "celsius", 1, 150, "Temperature of the memory stacks; a card without the sensor answers 0, which is no temperature.", NvmlField(82), 140),
    Metric("temperature_margin_c", "gpu", "gauge", "celsius", -100, 150, "How far the GPU is from where it slows down (T.Limit); below 0 it slows down.", Nvml("nvmlDeviceGetMarginTemperature"), 153, "rare"),
    Metric("temperature_shutdown_c", "gpu", "gauge", "celsius", 1, 200, "Temperature at which the card shuts itself down.", Nvml("nvmlDeviceGetTemperatureThreshold", ("NVML_TEMPERATURE_THRESHOLD_SHUTDOWN",)), 159, "static"),
    Metric("temperature_slowdown_c", "gpu", "gauge", "celsius", 1, 200, "Temperature at which the hardware slows the clocks down.", Nvml("nvmlDeviceGetTemperatureThreshold", ("NVML_TEMPERATURE_THRESHOLD_SLOWDOWN",)), 158, "static"),
    Metric("temperature_max_c", "gpu", "gauge", "celsius", 1, 200, "Highest temperature of the GPU at which it runs at full speed.", Nvml("nvmlDeviceGetTemperatureThreshold", ("NVML_TEMPERATURE_THRESHOLD_GPU_MAX",)), 152, "static"),
    Metric("memory_temperature_max_c", "gpu", "gauge", "celsius", 1, 200, "Highest temperature of the memory at which it runs at full speed.", Nvml("nvmlDeviceGetTemperatureThreshold", ("NVML_TEMPERATURE_THRESHOLD_MEM_MAX",)), 151, "static"),
    Metric("power_w", "gpu", "gauge", "watts", 0, 3000, "Board power draw, the one-second average of NVML.", Nvml("nvmlDeviceGetPowerUsage", scale=1e-3), 155),
    Metric("power_instant_w", "gpu", "gauge", "watts", 0, 3000, "Board power draw at this instant, not averaged.", NvmlField(186, 1e-3), 157),
    Metric("power_limit_w", "gpu", "gauge", "watts", 1, 3000, "Power limit that the driver enforces.", Nvml("nvmlDeviceGetEnforcedPowerLimit", scale=1e-3), 164, "rare"),
    Metric("power_limit_min_w", "gpu", "gauge", "watts", 1, 3000, "Lowest power limit that may be set.", NvmlField(187, 1e-3), 161, "static"),
    Metric("power_limit_max_w", "gpu", "gauge", "watts", 1, 3000, "Highest power limit that may be set.", NvmlField(188, 1e-3), 162, "static"),
    Metric("energy_j_total", "gpu", "counter", "joules", 0, _BYTES, "Energy since the driver was loaded; on a Grace superchip that of the whole module.", Nvml("nvmlDeviceGetTotalEnergyConsumption", scale=1e-3), 156, "rare"),
    Metric("sm_clock_mhz", "gpu", "gauge", "megahertz", 0, 6000, "Clock of the streaming multiprocessors.", Nvml("nvmlDeviceGetClockInfo", ("NVML_CLOCK_SM",)), 100),
    Metric("mem_clock_mhz", "gpu", "gauge", "megahertz", 0, 20000, "Clock of the device memory.", Nvml("nvmlDeviceGetClockInfo", ("NVML_CLOCK_MEM",)), 101),
    Metric("sm_clock_max_mhz", "gpu", "gauge", "megahertz", 1, 6000, "Highest SM clock of the part.", Nvml("nvmlDeviceGetMaxClockInfo", ("NVML_CLOCK_SM",)), 113, "static"),
    Metric("mem_clock_max_mhz", "gpu", "gauge", "megahertz", 1, 20000, "Highest memory clock of the part.", Nvml("nvmlDeviceGetMaxClockInfo", ("NVML_CLOCK_MEM",)), 114, "static"),
    Metric("pstate", "gpu", "state", "code", 0, 15, "Performance state; 0 is the fastest, 15 the slowest.", Nvml("nvmlDeviceGetPerformanceState"), 190),
    Metric("clocks_event_reasons", "gpu", "bitmask", "bits", 0, (1 << 32) - 2, "Why clocks are below their maximum: 0x1 idle, 0x2 application clocks, 0x4 software power cap, 0x8 hardware slowdown, 0x10 sync boost, 0x20 software thermal, 0x40 hardware thermal, 0x80 power brake, 0x100 display.", Nvml("nvmlDeviceGetCurrentClocksEventReasons"), 112),
    Metric("power_cap_s_total", "gpu", "counter", "seconds", 0, _BYTES, "Time that clocks were held down by the software power cap.", NvmlField(74, 1e-9), 240, "rare"),
    Metric("sw_thermal_s_total", "gpu", "counter", "seconds", 0, _BYTES, "Time that the driver slowed clocks down for heat.", NvmlField(269, 1e-9), 1422, "rare"),
    Metric("hw_thermal_s_total", "gpu", "counter", "seconds", 0, _BYTES, "Time that the hardware slowed clocks down for heat.", NvmlField(270, 1e-9), 1423, "rare"),
    Metric("power_brake_s_total", "gpu", "counter", "seconds", 0, _BYTES, "Time that the server's power brake slowed clocks down.", NvmlField(271, 1e-9), 1424, "rare"),
    Metric("thermal_s_total", "gpu", "counter", "seconds", 0, _BYTES, "Time that clocks were held down for heat, whoever did it; all that older drivers tell.", NvmlField(75, 1e-9), 241, "rare"),
    # GPU: what the units do (means since the sample before)
    Metric("gr_engine_active", "gpu", "mean", "ratio", 0, 1, "Share of time in which the compute engine had work.", Gpm(1), 1001),
    Metric("sm_active", "gpu", "mean", "ratio", 0, 1, "Share of SM cycles with at least one warp resident, averaged over the SMs.", Gpm(2), 1002),
    Metric("sm_occupancy", "gpu", "mean", "ratio", 0, 1, "Resident warps as a share of what the SMs can hold.", Gpm(3), 1003),
    Metric("int_active", "gpu", "mean", "ratio", 0, 1, "Share of cycles in which the integer pipe was active.", Gpm(4)),
    Metric("tensor_active", "gpu", "mean", "ratio", 0, 1, "Share of cycles in which any tensor pipe was active.", Gpm(5), 1004),
    Metric("tensor_dfma_active", "gpu", "mean", "ratio", 0, 1, "Tensor pipe, double precision.", Gpm(6), 1015),
    Metric("tensor_hmma_active", "gpu", "mean", "ratio", 0, 1, "Tensor pipe, 16-bit, TF32 and FP8 matrix products.", Gpm(7), 1014),
    Metric("tensor_imma_active", "gpu", "mean", "ratio", 0, 1, "Tensor pipe, integer.", Gpm(9), 1013),
    Metric("dram_active", "gpu", "mean", "ratio", 0, 1, "Share of cycles in which device memory sent or received data.", Gpm(10), 1005),
    Metric("fp64_active", "gpu", "mean", "ratio", 0, 1, "Share of cycles in which the FP64 pipe was active.", Gpm(11), 1006),
    Metric("fp32_active", "gpu", "mean", "ratio", 0, 1, "Share of cycles in which the FP32 pipe was active.", Gpm(12), 1007),
    Metric("fp16_active", "gpu", "mean", "ratio", 0, 1, "Share of cycles in which the FP16 pipe (not tensor) was active.", Gpm(13), 1008),
    # GPU: traffic
    Metric("pcie_tx_bytes_per_s", "gpu", "mean", "bytes_per_second", 0, _LINK, "PCIe traffic from the GPU to the host.", Gpm(20, 1 << 20), 1009),
    Metric("pcie_rx_bytes_per_s", "gpu", "mean", "bytes_per_second", 0, _LINK, "PCIe traffic from the host to the GPU.", Gpm(21, 1 << 20), 1010),
    Metric("nvlink_rx_bytes_per_s", "gpu", "mean", "bytes_per_second", 0, _LINK, "NVLink traffic received, all links.", Gpm(60, 1 << 20), 1012),
    Metric("nvlink_tx_bytes_per_s", "gpu", "mean", "bytes_per_second", 0, _LINK, "NVLink traffic sent, all links.", Gpm(61, 1 << 20), 1011),
    Metric("nvlink_links_active", "gpu", "gauge", "links", 0, 64, "NVLinks that are up; the card's facts tell how many it has.", NvmlLinks("nvmlDeviceGetNvLinkState"), None, "rare"),
    Metric("nvlink_replay_errors_total", "gpu", "counter", "errors", 0, _BYTES, "Packets that NVLinks sent again, all links.", NvmlField(161, scope=ALL_LINKS), 429, "rare", otherwise=NvmlField(52)),
    Metric("nvlink_recovery_errors_total", "gpu", "counter", "errors", 0, _BYTES, "Times an NVLink was trained anew, all links.", NvmlField(162, scope=ALL_LINKS), 439, "rare", otherwise=NvmlField(59)),
    Metric("nvlink_crc_errors_total", "gpu", "counter", "errors", 0, _BYTES, "Packets that arrived damaged over NVLink, all links.", NvmlField(163, scope=ALL_LINKS), 409, "rare", otherwise=NvmlField(38)),
    Metric("pcie_link_gen", "gpu", "state", "code", 1, 10, "PCIe generation now; idle links train down by design.", Nvml("nvmlDeviceGetCurrPcieLinkGeneration"), 237, "slow"),
    Metric("pcie_link_width", "gpu", "state", "lanes", 1, 32, "PCIe lanes now.", Nvml("nvmlDeviceGetCurrPcieLinkWidth"), 238, "slow"),
    Metric("pcie_replays_total", "gpu", "counter", "events", 0, 1 << 32, "PCIe packets sent again.", NvmlField(94), 202, "rare"),
    Metric("pcie_recoveries_total", "gpu", "counter", "events", 0, 1 << 32, "Times the PCIe link went into recovery, as it does with each change of its speed.", NvmlField(169), None, "rare"),
    Metric("pcie_correctable_errors_total", "gpu", "counter", "errors", 0, 1 << 32, "PCIe errors that were corrected.", NvmlField(173), 1501, "rare"),
    Metric("pcie_non_fatal_errors_total", "gpu", "counter", "errors", 0, 1 << 32, "PCIe errors that were not corrected and left the link up.", NvmlField(179), None, "rare"),
    Metric("pcie_fatal_errors_total", "gpu", "counter", "errors", 0, 1 << 32, "PCIe errors that took the link down.", NvmlField(180), None, "rare"),
    Metric("pcie_receiver_errors_total", "gpu", "counter", "errors", 0, 1 << 32, "Errors of the PCIe receiver.", NvmlField(175), None, "rare"),
    Metric("pcie_bad_tlp_total", "gpu", "counter", "errors", 0, 1 << 32, "PCIe data packets that arrived damaged.", NvmlField(176), None, "rare"),
    Metric("pcie_bad_dllp_total", "gpu", "counter", "errors", 0, 1 << 32, "PCIe link packets that arrived damaged.", NvmlField(178), None, "rare"),
    Metric("pcie_naks_received_total", "gpu", "counter", "events", 0, 1 << 32, "PCIe packets that the other side asked for again.", NvmlField(174), None, "rare"),
    Metric("pcie_naks_sent_total", "gpu", "counter", "events", 0, 1 << 32, "PCIe packets that the GPU asked for again.", NvmlField(177), None, "rare"),
    Metric("pcie_lcrc_errors_total", "gpu", "counter", "errors", 0, 1 << 32, "PCIe packets whose checksum was wrong.", NvmlField(182), None, "rare"),
    # GPU: health
    Metric("ecc_corrected_volatile_total", "gpu", "counter", "errors", 0, _BYTES, "Corrected memory errors since the driver was loaded.", Nvml("nvmlDeviceGetTotalEccErrors", ("NVML_MEMORY_ERROR_TYPE_CORRECTED", "NVML_VOLATILE_ECC")), 310, "slow"),
    Metric("ecc_uncorrected_volatile_total", "gpu", "counter", "errors", 0, _BYTES, "Uncorrected memory errors since the driver was loaded.", Nvml("nvmlDeviceGetTotalEccErrors", ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC")), 311, "slow"),
    Metric("ecc_corrected_aggregate_total", "gpu", "counter", "errors", 0, _BYTES, "Corrected memory errors over the card's life.", Nvml("nvmlDeviceGetTotalEccErrors", ("NVML_MEMORY_ERROR_TYPE_CORRECTED", "NVML_AGGREGATE_ECC")), 312, "slow"),
    Metric("ecc_uncorrected_aggregate_total", "gpu", "counter", "errors", 0, _BYTES, "Uncorrected memory errors over the card's life.", Nvml("nvmlDeviceGetTotalEccErrors", ("NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_AGGREGATE_ECC")), 313, "slow"),
    Metric("sram_ecc_uncorrected_total", "gpu", "counter", "errors", 0, _BYTES, "Uncorrected errors of on-chip memory (SECDED) over the card's life.", Nvml("nvmlDeviceGetSramEccErrorStatus", member="aggregateUncSecDed", struct="c_nvmlEccSramErrorStatus_v1_t"), None, "slow"),
    Metric("sram_ecc_parity_total", "gpu", "counter", "errors", 0, _BYTES, "Parity errors of on-chip memory over the card's life.", Nvml("nvmlDeviceGetSramEccErrorStatus", member="aggregateUncParity", struct="c_nvmlEccSramErrorStatus_v1_t"), None, "slow"),
    Metric("sram_ecc_threshold_exceeded", "gpu", "state", "flag", 0, 1, "On-chip memory had more errors than NVIDIA's threshold: the card should be replaced.", Nvml("nvmlDeviceGetSramEccErrorStatus", member="bThresholdExceeded", struct="c_nvmlEccSramErrorStatus_v1_t"), 346, "slow"),
    Metric("remap_correctable_total", "gpu", "counter", "rows", 0, 1 << 32, "Rows remapped after corrected errors.", NvmlField(142), 394, "slow"),
    Metric("remap_uncorrectable_total", "gpu", "counter", "rows", 0, 1 << 32, "Rows remapped after uncorrected errors.", NvmlField(143), 393, "slow"),
    Metric("remap_pending", "gpu", "state", "flag", 0, 1, "A row remap waits for a GPU reset.", NvmlField(144), 396, "slow"),
    Metric("remap_failed", "gpu", "state", "flag", 0, 1, "A row remap failed: the card should be replaced.", NvmlField(145), 395, "slow"),
    Metric("remap_banks_max", "gpu", "gauge", "banks", 0, 1 << 32, "Memory banks with every spare row left.", Nvml("nvmlDeviceGetRowRemapperHistogram", member="max"), 385, "slow"),
    Metric("remap_banks_high", "gpu", "gauge", "banks", 0, 1 << 32, "Memory banks with most spare rows left.", Nvml("nvmlDeviceGetRowRemapperHistogram", member="high"), 386, "slow"),
    Metric("remap_banks_partial", "gpu", "gauge", "banks", 0, 1 << 32, "Memory banks with some spare rows left.", Nvml("nvmlDeviceGetRowRemapperHistogram", member="partial"), 387, "slow"),
    Metric("remap_banks_low", "gpu", "gauge", "banks", 0, 1 << 32, "Memory banks with few spare rows left.", Nvml("nvmlDeviceGetRowRemapperHistogram", member="low"), 388, "slow"),
    Metric("remap_banks_none", "gpu", "gauge", "banks", 0, 1 << 32, "Memory banks with no spare row left.", Nvml("nvmlDeviceGetRowRemapperHistogram", member="none"), 389, "slow"),
    Metric("retired_pages_pending", "gpu", "state", "flag", 0, 1, "A page of memory waits for a restart of the driver to be retired (cards before Ampere).", Nvml("nvmlDeviceGetRetiredPagesPendingStatus"), None, "slow"),
    Metric("recovery_action", "gpu", "state", "code", 0, 7, "What the driver recommends: 0 nothing, 1 GPU reset, 2 node reboot, 3 drain peer-to-peer, 4 drain and reset, 5 recover IMEX, 6 bus reset, 7 system reboot.", NvmlField(230), 1523, "slow"),
    Metric("fabric_state", "gpu", "state", "code", 0, 3, "NVLink fabric: 0 none, 1 not yet joined, 2 joining, 3 joined.", Nvml("nvmlDeviceGetGpuFabricInfoV", member="state", struct="c_nvmlGpuFabricInfo_v2_t"), None, "slow"),
    Metric("fabric_health", "gpu", "bitmask", "bits", 0, (1 << 32) - 2, "NVLink fabric, two bits each: degraded bandwidth, route recovery, unhealthy route, access timeout; 0 not told, 1 yes, 2 no.", Nvml("nvmlDeviceGetGpuFabricInfoV", member="healthMask", struct="c_nvmlGpuFabricInfo_v2_t"), None, "slow"),
    Metric("persistence_mode", "gpu", "state", "flag", 0, 1, "The driver keeps the GPU ready while nobody uses it.", Nvml("nvmlDeviceGetPersistenceMode"), None, "slow"),
    Metric("compute_mode", "gpu", "state", "code", 0, 3, "Who may compute: 0 everyone, 1 one thread, 2 nobody, 3 one process.", Nvml("nvmlDeviceGetComputeMode"), None, "slow"),
    Metric("xid_errors_total", "gpu", "counter", "events", 0, 1 << 32, "XID errors that the agent saw; each one also travels as an event.", None, None, "slow"),
    # Host
    Metric("cpu_pct_per_core", "host", "vector", "percent", 0, 100, "Busy share of each core.", Proc("/proc/stat"), kept=False),
    Metric("cpu_busy_cores", "host", "mean", "cores", 0, 8192, "Cores kept busy: the sum of every core's busy share.", Proc("/proc/stat")),
    Metric("cpu_other_cores", "host", "mean", "cores", 0, 8192, "Cores kept busy by others than the processes that hold a GPU and their descendants.", Proc("/proc/stat")),
    Metric("cpu_core_max_pct", "host", "mean", "percent", 0, 100, "Busy share of the busiest core.", Proc("/proc/stat")),
    Metric("cpu_user_pct", "host", "mean", "percent", 0, 100, "Time in user code, over all cores.", Proc("/proc/stat")),
    Metric("cpu_system_pct", "host", "mean", "percent", 0, 100, "Time in the kernel, over all cores.", Proc("/proc/stat")),
    Metric("cpu_iowait_pct", "host", "mean", "percent", 0, 100, "Idle time with disk requests under way, over all cores.", Proc("/proc/stat")),
    Metric("cpu_steal_pct", "host", "mean", "percent", 0, 100, "Time that the hypervisor gave to others while this machine wanted it, over all cores.", Proc("/proc/stat")),
    Metric("cpu_clock_mhz", "host", "gauge", "megahertz", 1, 20000, "Mean clock of a few cores, spread evenly; virtual machines have none.", Proc("/sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq"), None, "slow"),
    Metric("load_1min", "host", "gauge", "tasks", 0, 1 << 22, "Tasks that ran or waited for CPU or storage, mean of the last minute.", Proc("/proc/loadavg")),
    Metric("psi_cpu_some_pct", "host", "mean", "percent", 0, 100, "Time in which a task waited for a CPU.", Proc("/proc/pressure/cpu")),
    Metric("psi_memory_some_pct", "host", "mean", "percent", 0, 100, "Time in which a task waited for memory to be reclaimed.", Proc("/proc/pressure/memory")),
    Metric("psi_memory_full_pct", "host", "mean", "percent", 0, 100, "Time in which all tasks that were not idle waited for memory.", Proc("/proc/pressure/memory")),
    Metric("psi_io_some_pct", "host", "mean", "percent", 0, 100, "Time in which a task waited for storage.", Proc("/proc/pressure/io")),
    Metric("psi_io_full_pct", "host", "mean", "percent", 0, 100, "Time in which all tasks that were not idle waited for storage.", Proc("/proc/pressure/io")),
    Metric("mem_used_bytes", "host", "gauge", "bytes", 0, 1 << 50, "Memory in use, total less available.", Proc("/proc/meminfo")),
    Metric("mem_available_bytes", "host", "gauge", "bytes", 0, 1 << 50, "Memory that programs can still have without swapping, as the kernel estimates it.", Proc("/proc/meminfo")),
    Metric("swap_used_bytes", "host", "gauge", "bytes", 0, 1 << 50, "Swap in use.", Proc("/proc/meminfo")),
    Metric("swap_in_bytes_total", "host", "counter", "bytes", 0, _BYTES, "Bytes read back from swap.", Proc("/proc/vmstat"), None, "slow"),
    Metric("swap_out_bytes_total", "host", "counter", "bytes", 0, _BYTES, "Bytes written to swap.", Proc("/proc/vmstat"), None, "slow"),
    Metric("hugepages_total_bytes", "host", "gauge", "bytes", 0, 1 << 50, "Memory set aside for huge pages of the default size.", Proc("/proc/meminfo")),
    Metric("hugepages_free_bytes", "host", "gauge", "bytes", 0, 1 << 50, "Huge pages that nobody uses yet.", Proc("/proc/meminfo")),
    Metric("shm_used_bytes", "host", "gauge", "bytes", 0, 1 << 50, "In use of /dev/shm, where data loader workers and NCCL share memory.", Proc("/dev/shm"), None, "slow"),  # noqa: S108 - a name in a table
    Metric("shm_size_bytes", "host", "gauge", "bytes", 0, 1 << 50, "Size of /dev/shm; a container's is 64 MiB unless told otherwise.", Proc("/dev/shm"), None, "slow"),  # noqa: S108 - a name in a table
    Metric("disk_read_bytes_total", "host", "counter", "bytes", 0, _BYTES, "Bytes read from whole disks.", Proc("/proc/diskstats")),
    Metric("disk_write_bytes_total", "host", "counter", "bytes", 0, _BYTES, "Bytes written to whole disks.", Proc("/proc/diskstats")),
    Metric("disk_read_iops", "host", "mean", "per_second", 0, 1e9, "Read requests that whole disks completed, a second.", Proc("/proc/diskstats")),
    Metric("disk_write_iops", "host", "mean", "per_second", 0, 1e9, "Write requests that whole disks completed, a second.", Proc("/proc/diskstats")),
    Metric("disk_await_s", "host", "mean", "seconds", 0, 1e6, "Time that a request took, queue included, mean of those that ended; none ended: not_found.", Proc("/proc/diskstats")),
    Metric("disk_busy_max_pct", "host", "mean", "percent", 0, 100, "Time in which the busiest disk had a request under way; one that serves many at once is not full at 100.", Proc("/proc/diskstats")),
    Metric("net_rx_bytes_total", "host", "counter", "bytes", 0, _BYTES, "Bytes received by network devices; what loopback, VLANs, bridges and tunnels carry is not counted again.", Proc("/proc/net/dev")),
    Metric("net_tx_bytes_total", "host", "counter", "bytes", 0, _BYTES, "Bytes sent by network devices; what loopback, VLANs, bridges and tunnels carry is not counted again.", Proc("/proc/net/dev")),
    Metric("net_rx_errors_total", "host", "counter", "packets", 0, _BYTES, "Packets received with an error.", Proc("/proc/net/dev")),
    Metric("net_tx_errors_total", "host", "counter", "packets", 0, _BYTES, "Packets that could not be sent for an error.", Proc("/proc/net/dev")),
    Metric("net_rx_drops_total", "host", "counter", "packets", 0, _BYTES, "Received packets that were dropped.", Proc("/proc/net/dev")),
    Metric("net_tx_drops_total", "host", "counter", "packets", 0, _BYTES, "Packets dropped before they were sent.", Proc("/proc/net/dev")),
    Metric("tcp_retransmits_total", "host", "counter", "segments", 0, _BYTES, "TCP segments sent again: loss or congestion.", Proc("/proc/net/snmp"), None, "slow"),
    Metric("nic_rate_bytes_per_s", "host", "gauge", "bytes_per_second", 0, _LINK, "Speed of the fastest network card that is up, in each direction.", Proc("/sys/class/net/*/speed"), None, "slow"),
    Metric("ib_ports", "host", "gauge", "ports", 0, 1024, "InfiniBand and RoCE ports.", Proc("/sys/class/infiniband"), None, "slow"),
    Metric("ib_ports_active", "host", "gauge", "ports", 0, 1024, "Ports among them whose link is active.", Proc("/sys/class/infiniband/*/ports/*/state"), None, "slow"),
    Metric("ib_rx_bytes_total", "host", "counter", "bytes", 0, _BYTES, "Bytes received by InfiniBand and RoCE ports.", Proc("/sys/class/infiniband/*/ports/*/counters/port_rcv_data"), None, "slow"),
    Metric("ib_tx_bytes_total", "host", "counter", "bytes", 0, _BYTES, "Bytes sent by InfiniBand and RoCE ports.", Proc("/sys/class/infiniband/*/ports/*/counters/port_xmit_data"), None, "slow"),
    Metric("ib_rate_bytes_per_s", "host", "gauge", "bytes_per_second", 0, _LINK, "Speed of the active ports together, in each direction.", Proc("/sys/class/infiniband/*/ports/*/rate"), None, "slow"),
    Metric("ib_rate_max_bytes_per_s", "host", "gauge", "bytes_per_second", 0, _LINK, "The same if each active port were as fast as the fastest of its board and kind on this node; no board is there twice: not_found.", Proc("/sys/class/infiniband/*/ports/*/rate"), None, "slow"),
    Metric("ib_xmit_wait_total", "host", "counter", "ticks", 0, _BYTES, "Ticks of the adapter in which a port had data and might not send it: congestion, when it grows faster than on other nodes.", Proc("/sys/class/infiniband/*/ports/*/counters/port_xmit_wait"), None, "slow"),
    Metric("ib_symbol_errors_total", "host", "counter", "errors", 0, _BYTES, "Symbols received in error: a bad cable or module, when it grows.", Proc("/sys/class/infiniband/*/ports/*/counters/symbol_error"), None, "slow"),
    Metric("ib_link_downed_total", "host", "counter", "events", 0, _BYTES, "Times a port's link failed and came back.", Proc("/sys/class/infiniband/*/ports/*/counters/link_downed"), None, "slow"),
    # Process: one that holds a GPU
    Metric("cpu_pct", "process", "mean", "percent", 0, 819200, "CPU of the process alone, 100 for each core; a CUDA process that waits for the GPU spins at 100.", Proc("/proc/PID/stat")),
    Metric("threads", "process", "gauge", "threads", 0, 1 << 22, "Threads of the process.", Proc("/proc/PID/stat")),
    Metric("children", "process", "gauge", "processes", 0, 1 << 22, "Descendants of the process; data loader workers are among them, compile workers too.", Proc("/proc/PID/stat")),
    Metric("children_cpu_pct", "process", "mean", "percent", 0, 819200, "CPU of its descendants together.", Proc("/proc/PID/stat")),
    Metric("rss_bytes", "process", "gauge", "bytes", 0, 1 << 50, "Resident memory.", Proc("/proc/PID/statm")),
    Metric("read_chars_total", "process", "counter", "bytes", 0, _BYTES, "Bytes passed to read calls, page cache included.", Proc("/proc/PID/io")),
    Metric("write_chars_total", "process", "counter", "bytes", 0, _BYTES, "Bytes passed to write calls, page cache included.", Proc("/proc/PID/io")),
    Metric("main_thread_cpu_pct", "process", "mean", "percent", 0, 100, "CPU of its main thread, which launches the kernels of most programs.", Proc("/proc/PID/task/PID/stat")),
    Metric("dataloader_workers", "process", "gauge", "processes", 0, 1 << 22, "Descendants that run the process's own program (forked, or spawned by multiprocessing) and hold no GPU: data loader workers as a rule.", Proc("/proc/PID/cmdline")),
    Metric("slow_worker_ratio", "process", "gauge", "number", 0, 1e6, "CPU of the busiest data loader worker over the median of all, in the last 15 s; fewer than three that worked: not_found.", Proc("/proc/PID/stat"), None, "slow"),
    Metric("worker_turnovers_total", "process", "counter", "events", 0, _BYTES, "Times that all data loader workers were others than before, as with each epoch where they are not kept.", Proc("/proc/PID/stat")),
    Metric("numa_local", "process", "gauge", "ratio", 0, 1, "1 where its main thread last ran on the NUMA node of a GPU that it holds, else 0; a machine of one node: unsupported.", Proc("/proc/PID/stat")),
    Metric("io_delay_s_total", "process", "counter", "seconds", 0, _BYTES, "Time its main thread waited for storage; only where the kernel keeps delay accounts (sysctl kernel.task_delayacct).", Proc("/proc/PID/stat")),
    Metric("shmem_bytes", "process", "gauge", "bytes", 0, 1 << 50, "Resident shared memory (/dev/shm, shared mappings without a file): what data loader workers hand over.", Proc("/proc/PID/status")),
    Metric("voluntary_switches_total", "process", "counter", "switches", 0, _BYTES, "Times its main thread gave up the CPU to wait.", Proc("/proc/PID/status")),
    Metric("involuntary_switches_total", "process", "counter", "switches", 0, _BYTES, "Times its main thread was taken off the CPU for others.", Proc("/proc/PID/status")),
    Metric("read_bytes_total", "process", "counter", "bytes", 0, _BYTES, "Bytes that storage delivered for it, page cache left out.", Proc("/proc/PID/io")),
    Metric("write_bytes_total", "process", "counter", "bytes", 0, _BYTES, "Bytes it caused to be written to storage.", Proc("/proc/PID/io")),
    Metric("cpu_quota_cores", "process", "gauge", "cores", 0, 8192, "CPU that its control group may use, the tightest limit above it; nothing limits it: not_found.", Proc("/sys/fs/cgroup/*/cpu.max"), None, "slow"),
    Metric("cpu_periods_total", "process", "counter", "periods", 0, _BYTES, "Periods of that limit in which the group wanted CPU.", Proc("/sys/fs/cgroup/*/cpu.stat"), None, "slow"),
    Metric("cpu_throttled_periods_total", "process", "counter", "periods", 0, _BYTES, "Periods in which the limit held the group back.", Proc("/sys/fs/cgroup/*/cpu.stat"), None, "slow"),
    Metric("cpus_allowed", "process", "gauge", "cores", 0, 8192, "CPUs that its main thread may run on, by affinity and control group.", Proc("/proc/PID/status"), None, "slow"),
    Metric("shm_used_bytes", "process", "gauge", "bytes", 0, 1 << 50, "In use of /dev/shm as the process sees it; a container has one of its own.", Proc("/proc/PID/root/dev/shm"), None, "slow"),
    Metric("shm_size_bytes", "process", "gauge", "bytes", 0, 1 << 50, "Size of /dev/shm as the process sees it; a container's is 64 MiB unless told otherwise.", Proc("/proc/PID/root/dev/shm"), None, "slow"),
    # Process: what the driver's accounting keeps of it
    Metric("gpu_util_lifetime_pct", "process", "gauge", "percent", 0, 100, "Share of its life in which a kernel of it ran, on the GPU that it used most.", Accounted("gpuUtilization"), None, "slow"),
    Metric("gpu_mem_max_bytes", "process", "gauge", "bytes", 0, 1 << 43, "Most device memory that it ever held, on the GPU where that was most.", Accounted("maxMemoryUsage"), None, "slow"),
    Metric("gpu_time_s", "process", "gauge", "seconds", 0, 1e9, "Time that it has computed on a GPU: since its context was made, or until it was given up.", Accounted("time"), None, "slow"),
    Metric("gpu_is_running", "process", "state", "flag", 0, 1, "The driver counts it as running; 0: it ended and still holds the GPU.", Accounted("isRunning"), None, "slow"),
    # Process: what its program tells of itself
    Metric("steps_total", "process", "counter", "steps", 0, _BYTES, "Training steps since the program began.", Reported("steps")),
    Metric("step_time_s", "process", "mean", "seconds", 0, 1e6, "Time of a step: mean of those that ended since the sample before, or of the last ones while the next is under way.", Reported("step_s")),
    Metric("data_wait_s", "process", "mean", "seconds", 0, 1e6, "Time of a step that was spent waiting for its data, as the program measured it.", Reported("wait_s")),
    Metric("samples_per_s", "process", "mean", "per_second", 0, 1e12, "Samples that the steps worked through, a second.", Reported("samples")),
    Metric("tokens_per_s", "process", "mean", "per_second", 0, 1e12, "Tokens that the steps worked through, a second.", Reported("tokens")),
    Metric("h2d_s", "process", "mean", "seconds", 0, 1e6, "Time of a step that was spent waiting for copies to the GPU, as the program measured it.", Reported("h2d_s")),
    Metric("comm_s", "process", "mean", "seconds", 0, 1e6, "Time of a step that was spent on communication with other GPUs and that no computing hid, as the program measured it.", Reported("comm_s")),
    Metric("step_time_max_s", "process", "gauge", "seconds", 0, 1e6, "Longest step since the sample before, or of the last ones while the next is under way.", Reported("step_max_s")),
    Metric("slow_steps_total", "process", "counter", "steps", 0, _BYTES, "Steps that took over five times the median of the last thousand.", Reported("slow_steps")),
    Metric("since_step_s", "process", "gauge", "seconds", 0, 1e9, "Time since the agent heard of a new step; half a second less or more.", Reported("steps")),
    Metric("loss", "process", "gauge", "number", -1e30, 1e30, "Loss of the last step that told it.", Reported("loss")),
    Metric("loss_not_finite_total", "process", "counter", "steps", 0, _BYTES, "Steps whose loss was NaN or infinite.", Reported("loss_not_finite")),
    Metric("loss_still_steps", "process", "gauge", "steps", 0, _BYTES, "Steps in a row, up to the last, whose loss was exactly that of the step before; 0 while it changes.", Reported("loss_still")),
    Metric("loss_scale", "process", "gauge", "number", 0, 1e30, "Scale of the loss in mixed precision; it halves with each overflow.", Reported("loss_scale")),
    Metric("grad_norm", "process", "gauge", "number", 0, 1e30, "Norm of the gradients of the last step that told it.", Reported("grad_norm")),
    Metric("grad_norm_spikes_total", "process", "counter", "steps", 0, _BYTES, "Steps whose gradients' norm was at least ten times the median of the last thousand.", Reported("grad_norm_spikes")),
    Metric("alloc_peak_bytes", "process", "gauge", "bytes", 0, 1 << 43, "Highest device memory that PyTorch's allocator has handed out.", Reported("alloc_peak_bytes")),
    Metric("alloc_retries_total", "process", "counter", "events", 0, _BYTES, "Times PyTorch's allocator had to free its cache and ask again.", Reported("alloc_retries")),
    Metric("reserved_peak_bytes", "process", "gauge", "bytes", 0, 1 << 43, "Highest device memory that PyTorch's allocator has held, free blocks of its cache included.", Reported("reserved_peak_bytes")),
    Metric("ooms_total", "process", "counter", "events", 0, _BYTES, "Out-of-memory errors that the program survived: PyTorch's allocator's count, or the program's own where that is larger.", Reported("ooms")),
    Metric("checkpoints_total", "process", "counter", "checkpoints", 0, _BYTES, "Checkpoints that it saved.", Reported("checkpoints")),
    Metric("checkpoint_save_s", "process", "gauge", "seconds", 0, 1e6, "Time that training waited for the last checkpoint.", Reported("checkpoint_s")),
    Metric("checkpoint_bytes", "process", "gauge", "bytes", 0, 1 << 53, "Size of the last checkpoint.", Reported("checkpoint_bytes")),
    Metric("since_checkpoint_s", "process", "gauge", "seconds", 0, 1e9, "Time since the last checkpoint was saved.", Reported("since_checkpoint_s")),
    # Engine: a serving engine's own figures
    Metric("requests_running", "engine", "gauge", "requests", 0, 1 << 24, "Requests in the running batch.", Scraped("vllm:num_requests_running, sglang:num_running_reqs, nv_trt_llm_request_metrics, trtllm_num_requests_running")),
    Metric("requests_waiting", "engine", "gauge", "requests", 0, 1 << 24, "Requests that wait for a place in the batch.", Scraped("vllm:num_requests_waiting, sglang:num_queue_reqs, nv_trt_llm_request_metrics, trtllm_num_requests_waiting")),
    Metric("kv_cache_used", "engine", "gauge", "ratio", 0, 1, "Share of the KV cache in use.", Scraped("vllm:kv_cache_usage_perc, sglang:token_usage, nv_trt_llm_kv_cache_block_metrics, trtllm_kv_cache_utilization")),
    Metric("requests_finished_total", "engine", "counter", "requests", 0, _BYTES, "Requests that ended well.", Scraped("vllm:request_success_total, sglang:num_requests_total, nv_inference_request_success, trtllm_request_success_total")),
    Metric("prompt_tokens_total", "engine", "counter", "tokens", 0, _BYTES, "Prompt tokens read.", Scraped("vllm:prompt_tokens_total, sglang:prompt_tokens_total, trtllm_prompt_tokens_total")),
    Metric("generation_tokens_total", "engine", "counter", "tokens", 0, _BYTES, "Tokens generated.", Scraped("vllm:generation_tokens_total, sglang:generation_tokens_total, trtllm_generation_tokens_total")),
    Metric("preemptions_total", "engine", "counter", "requests", 0, _BYTES, "Requests thrown out of the batch for want of KV cache.", Scraped("vllm:num_preemptions_total, sglang:num_retracted_requests_total")),
    Metric("prefix_cache_queries_total", "engine", "counter", "tokens", 0, _BYTES, "Prompt tokens looked up in the prefix cache.", Scraped("vllm:prefix_cache_queries_total, sglang:prompt_tokens_total, trtllm_prompt_tokens_total")),
    Metric("prefix_cache_hits_total", "engine", "counter", "tokens", 0, _BYTES, "Prompt tokens found in the prefix cache.", Scraped("vllm:prefix_cache_hits_total, sglang:cached_tokens_total, trtllm_prompt_cached_tokens_total")),
    Metric("ttft_mean_s", "engine", "mean", "seconds", 0, 1e6, "Time to the first token, mean of the requests since the scrape before.", Scraped("vllm:time_to_first_token_seconds, sglang:time_to_first_token_seconds, nv_inference_first_response_histogram_ms, trtllm_time_to_first_token_seconds")),
    Metric("ttft_p95_s", "engine", "mean", "seconds", 0, 1e6, "Time to the first token, 95th percentile by the engine's own buckets.", Scraped("vllm:time_to_first_token_seconds, sglang:time_to_first_token_seconds, nv_inference_first_response_histogram_ms, trtllm_time_to_first_token_seconds")),
    Metric("tpot_mean_s", "engine", "mean", "seconds", 0, 1e6, "Time per output token after the first, mean since the scrape before.", Scraped("vllm:inter_token_latency_seconds, sglang:inter_token_latency_seconds, trtllm_time_per_output_token_seconds")),
    Metric("tpot_p95_s", "engine", "mean", "seconds", 0, 1e6, "Time per output token, 95th percentile by the engine's own buckets.", Scraped("vllm:inter_token_latency_seconds, sglang:inter_token_latency_seconds, trtllm_time_per_output_token_seconds")),
    Metric("queue_mean_s", "engine", "mean", "seconds", 0, 1e6, "Time a request waited before it ran, mean since the scrape before.", Scraped("vllm:request_queue_time_seconds, sglang:queue_time_seconds, nv_inference_queue_duration_us, trtllm_request_queue_time_seconds")),
    Metric("e2e_mean_s", "engine", "mean", "seconds", 0, 1e6, "Time of a whole request, mean since the scrape before.", Scraped("vllm:e2e_request_latency_seconds, sglang:e2e_request_latency_seconds, nv_inference_request_duration_us, trtllm_e2e_request_latency_seconds")),
    Metric("batch_size_mean", "engine", "mean", "requests", 0, 1 << 24, "Requests in one execution, mean since the scrape before.", Scraped("nv_inference_count")),
)
# fmt: on

BY_KEY: Final = {metric.key: metric for metric in METRICS}


def of(scope: Scope) -> Iterator[Metric]:
    """The metrics of one scope, in registry order."""
    return (metric for metric in METRICS if metric.scope == scope)


def sent(scope: Scope) -> Iterator[Metric]:
    """The metrics of one scope that travel to the server, in registry order."""
    return (metric for metric in of(scope) if metric.kept)


SLOW_S: Final = 15.0
"""An agent tells metrics that are not `fast` at least so often, and whenever one of them changes."""

HELD_S: Final = int(2 * SLOW_S)
"""For so long what was told of such a metric holds while nothing newer is."""

HELD: Final = frozenset(metric.name for metric in METRICS if metric.scope == "gpu" and metric.kept and metric.cadence != "fast")
"""The GPU metrics whose column may be empty in a batch: it is then as it was told last."""


def accept(metric: Metric, value: object) -> tuple[Number | None, str | None]:
    """`(number, None)` when `value` is a possible reading of `metric`, else `(None, reason)`.

    The one gate between devices and arithmetic: text, booleans, NaN, infinities, the drivers' "no value"
    sentinels and impossible magnitudes become absent with a reason, never a number.
    """
    if value is None:
        return None, "unsupported"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, "not_a_number"
    if isinstance(value, float) and not math.isfinite(value):  # a whole number may be too large for a float
        return None, "not_a_number"
    if metric.low <= value <= metric.high:
        if metric.is_integer and isinstance(value, float):
            return (int(value), None) if value.is_integer() else (None, "out_of_range")
        return value, None
    if value == 0 and metric.unit == "celsius":
        return None, "unsupported"  # a card without the sensor answers success and 0
    return None, "blank" if _is_blank(value) else "out_of_range"


# DCGM's and NVML's ways to say "no value"; what 64 bits hold at or above the second is one too (dcgm_structs.h).
# Only judged outside the metric's range: a byte counter may pass the 32-bit ones honestly.
_BLANKS: Final = (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 140737488355328.0)


def _is_blank(value: Number) -> bool:
    if value in (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
        return True
    return _BLANKS[1] <= value <= 1 << 64 or any(blank <= value < blank + 16 for blank in _BLANKS)
