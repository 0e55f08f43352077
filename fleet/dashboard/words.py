"""The interface's words for what the code names by slug: metrics, units, reasons, states, bottlenecks."""

import re
from collections.abc import Mapping
from typing import Final

from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from advisor.names import FEATURES

SEVERITY: Final = {
    "critical": pgettext_lazy("severity", "critical"),
    "warn": pgettext_lazy("severity", "warning"),
    "advice": pgettext_lazy("severity", "advice"),
    "info": pgettext_lazy("severity", "info"),
}

CONDITION: Final = {
    "pending": pgettext_lazy("condition", "pending"),
    "firing": pgettext_lazy("condition", "firing"),
    "noisy": pgettext_lazy("condition", "noisy"),
    "resolved": pgettext_lazy("condition", "resolved"),
}

ADVICE: Final = {
    "proposed": pgettext_lazy("advice", "proposed"),
    "accepted": pgettext_lazy("advice", "accepted"),
    "dismissed": pgettext_lazy("advice", "dismissed"),
    "applied": pgettext_lazy("advice", "applied"),
    "helped": pgettext_lazy("advice", "helped"),
    "no_effect": pgettext_lazy("advice", "no effect"),
    "worse": pgettext_lazy("advice", "worse"),
    "cannot_tell": pgettext_lazy("advice", "cannot tell"),
}

AXIS: Final = {"condition": _("condition"), "advice": _("advice")}
SCOPE: Final = {"gpu": _("GPU"), "node": _("node"), "job": _("job"), "service": _("service"), "fleet": _("fleet")}
CONFIDENCE: Final = {
    "high": pgettext_lazy("confidence", "high"),
    "medium": pgettext_lazy("confidence", "medium"),
    "low": pgettext_lazy("confidence", "low"),
}
CHANGE_KIND: Final = {
    "diff": _("code change"),
    "flag": _("command-line flag"),
    "env": _("environment variable"),
    "command": _("command"),
    "config": _("configuration"),
}

BOTTLENECK: Final = {
    "idle": pgettext_lazy("bottleneck", "idle"),
    "data": pgettext_lazy("bottleneck", "data"),
    "copy": pgettext_lazy("bottleneck", "copy"),
    "launch": pgettext_lazy("bottleneck", "launch"),
    "underfilled": pgettext_lazy("bottleneck", "underfilled"),
    "compute": pgettext_lazy("bottleneck", "compute"),
    "memory_bandwidth": pgettext_lazy("bottleneck", "memory bandwidth"),
    "communication": pgettext_lazy("bottleneck", "communication"),
    "checkpoint": pgettext_lazy("bottleneck", "checkpoint"),
    "contention": pgettext_lazy("bottleneck", "contention"),
    "clocks": pgettext_lazy("bottleneck", "clocks"),
    "": pgettext_lazy("bottleneck", "unknown"),
}

BOTTLENECK_MEANS: Final = {
    "idle": _("Nothing runs and the process does nothing for the GPU."),
    "data": _("The GPU waits for input."),
    "copy": _("Copies over PCIe take the time; the SMs wait."),
    "launch": _("The engine idles between kernels: they are launched too slowly."),
    "underfilled": _("The engine is always busy, but few SMs are."),
    "compute": _("The math pipes, or the SMs, are full."),
    "memory_bandwidth": _("Device memory is the unit nearest its peak."),
    "communication": _("Traffic between GPUs is large for the compute done; SMs wait."),
    "checkpoint": _("The GPU waits while its process writes."),
    "contention": _("Unrelated processes compute on the same GPU."),
    "clocks": _("Heat, a power brake or locked clocks take the speed."),
    "": _("Too little was measured to say."),
}

REASON: Final = {
    "unsupported": _("this device, driver or mode cannot answer"),
    "not_permitted": _("the agent's user may not ask"),
    "not_found": _("the thing asked about is not there"),
    "not_a_number": _("the answer was not a number"),
    "blank": _("the driver answered “no value”"),
    "out_of_range": _("the answer was physically impossible"),
    "no_previous": _("needs an earlier sample"),
    "timeout": _("the driver did not answer in time"),
    "gpu_lost": _("the GPU fell off the bus"),
    "profiler_busy": _("another profiler holds the counters"),
    "driver_error": _("another error of the driver"),
    "not_recorded": _("the recording lacks it"),
}

EVENT: Final = {
    "xid": _("XID error"),
    "ecc": _("ECC error"),
    "gpu_lost": _("GPU lost"),
    "gpu_back": _("GPU back"),
    "driver": _("driver"),
    "agent": _("agent"),
}

REFUSAL: Final = {
    "malformed": _("not a message that the server knows"),
    "too_large": _("larger than 256 kB"),
    "need_hello": _("schema unknown on its connection"),
    "wrong_node": _("spoke for another node"),
    "wrong_boot": _("belonged to another boot"),
    "wrong_shape": _("a column's length did not match"),
    "bad_time": _("time outside what the server accepts"),
    "unknown_metric": _("a metric that is not in the registry"),
    "bad_hello": _("a hello that contradicts itself"),
    "busy": _("the server's queue was full; sent again later"),
}

NOT_MEASURED: Final = _("not measured")
UNKNOWN_SINCE: Final = _("unknown since")
NEVER_SEEN: Final = _("never heard of")
UNJUDGED: Final = _("No sample comes: what holds it back now is unknown.")
NO_NEW_SAMPLE: Final = _("no sample in the last 30 seconds")
POWER_FROM: Final = _("sum over {from} of {of} GPUs")
SILENT: Final = _("{total} silent")
UNMEASURED: Final = _("{total} more: activity not measured")
RECORDING: Final = _("recording")
NOISY_MEANS: Final = _("It opened four times within an hour: nobody is told of it until it keeps still.")

METRIC: Final = {
    "gpu.gpu_util_pct": _("GPU utilisation"),
    "gpu.mem_copy_util_pct": _("Memory controller utilisation"),
    "gpu.mem_used_bytes": _("Device memory used"),
    "gpu.mem_total_bytes": _("Device memory"),
    "gpu.mem_reserved_bytes": _("Device memory reserved by the driver"),
    "gpu.temperature_c": _("Temperature"),
    "gpu.memory_temperature_c": _("Memory temperature"),
    "gpu.power_w": _("Power"),
    "gpu.power_limit_w": _("Power limit"),
    "gpu.energy_j_total": _("Energy"),
    "gpu.sm_clock_mhz": _("SM clock"),
    "gpu.mem_clock_mhz": _("Memory clock"),
    "gpu.sm_clock_max_mhz": _("Highest SM clock"),
    "gpu.mem_clock_max_mhz": _("Highest memory clock"),
    "gpu.pstate": _("Performance state"),
    "gpu.clocks_event_reasons": _("Clock event reasons"),
    "gpu.gr_engine_active": _("Compute engine active"),
    "gpu.sm_active": _("SM active"),
    "gpu.sm_occupancy": _("SM occupancy"),
    "gpu.int_active": _("Integer pipe active"),
    "gpu.tensor_active": _("Tensor cores active"),
    "gpu.tensor_dfma_active": _("Tensor cores, double precision"),
    "gpu.tensor_hmma_active": _("Tensor cores, 16-bit, TF32 and FP8"),
    "gpu.tensor_imma_active": _("Tensor cores, integer"),
    "gpu.dram_active": _("DRAM active"),
    "gpu.fp64_active": _("FP64 pipe active"),
    "gpu.fp32_active": _("FP32 pipe active"),
    "gpu.fp16_active": _("FP16 pipe active"),
    "gpu.pcie_tx_bytes_per_s": _("PCIe to host"),
    "gpu.pcie_rx_bytes_per_s": _("PCIe from host"),
    "gpu.nvlink_rx_bytes_per_s": _("NVLink received"),
    "gpu.nvlink_tx_bytes_per_s": _("NVLink sent"),
    "gpu.pcie_link_gen": _("PCIe generation now"),
    "gpu.pcie_link_width": _("PCIe lanes now"),
    "gpu.ecc_corrected_volatile_total": _("Corrected ECC errors since driver load"),
    "gpu.ecc_uncorrected_volatile_total": _("Uncorrected ECC errors since driver load"),
    "gpu.ecc_corrected_aggregate_total": _("Corrected ECC errors over its life"),
    "gpu.ecc_uncorrected_aggregate_total": _("Uncorrected ECC errors over its life"),
    "gpu.remap_correctable_total": _("Rows remapped after corrected errors"),
    "gpu.remap_uncorrectable_total": _("Rows remapped after uncorrected errors"),
    "gpu.remap_pending": _("Row remap pending"),
    "gpu.remap_failed": _("Row remap failed"),
    "gpu.recovery_action": _("Recovery action"),
    "gpu.xid_errors_total": _("XID errors"),
    "host.cpu_pct_per_core": _("CPU per core"),
    "host.cpu_busy_cores": _("Busy CPU cores"),
    "host.cpu_core_max_pct": _("Busiest CPU core"),
    "host.cpu_user_pct": _("CPU in user code"),
    "host.cpu_system_pct": _("CPU in the kernel"),
    "host.cpu_iowait_pct": _("CPU waiting for disks"),
    "host.mem_used_bytes": _("Host memory used"),
    "host.disk_read_bytes_total": _("Disk reads"),
    "host.disk_write_bytes_total": _("Disk writes"),
    "host.net_rx_bytes_total": _("Network received"),
    "host.net_tx_bytes_total": _("Network sent"),
    "process.cpu_pct": _("Process CPU"),
    "process.threads": _("Threads"),
    "process.children": _("Child processes"),
    "process.children_cpu_pct": _("CPU of child processes"),
    "process.rss_bytes": _("Resident memory"),
    "process.read_chars_total": _("Bytes read"),
    "process.write_chars_total": _("Bytes written"),
}

SHORT: Final = {
    "gpu_util_pct": _("Util."),
    "sm_active": _("SM"),
    "tensor_active": _("Tensor"),
    "dram_active": _("DRAM"),
    "mem_used_bytes": _("Memory"),
    "power_w": _("Power"),
    "sm_clock_mhz": _("SM clock"),
    "temperature_c": _("Temp."),
    "pcie_rx_bytes_per_s": _("PCIe in"),
    "nvlink_rx_bytes_per_s": _("NVLink in"),
}
"""Column heads where the full label would not fit; the full one is the title."""


ABSENT_TOO: Final = {"gpu.processes": _("Processes that hold a GPU")}
"""What an absence may name beside the metrics of the registry."""


def metric(name: str, scope: str = "gpu") -> str:
    """The metric's label, or its name where nobody gave it one."""
    key = f"{scope}.{name}"
    return str(METRIC.get(key) or ABSENT_TOO.get(key) or name)


FEATURE: Final = {name: _(text) for name, text in FEATURES.items()}
"""The features that rules show as evidence, where they are not simply a metric."""


def evidence(name: str) -> str:
    """The label of a feature: its own, or its metric's; its name in plain words where neither is known."""
    if name in FEATURE:
        return str(FEATURE[name])
    for scope in ("gpu", "host", "process"):
        if f"{scope}.{name}" in METRIC:
            return metric(name, scope)
    return name.replace("_", " ")


def source(text: str) -> str:
    """A source as a reader sees it: a recording's name stays, the words around it are of the reader's language."""
    both, one = _("recordings {one} and {other}"), _("recording {one}")
    if match := re.fullmatch(r"recordings (\S+) and (\S+)", text):
        return str(both).replace("{one}", match[1]).replace("{other}", match[2])
    return str(one).replace("{one}", text.removeprefix("recording ")) if text.startswith("recording ") else text


def word(words: Mapping[str, object], slug: str) -> str:
    """The word for a slug; the slug itself where there is none, so that nothing new is hidden."""
    return str(words.get(slug, slug))


def first_upper(text: str) -> str:
    """The text with its first letter upper case."""
    return str(capfirst(text))
