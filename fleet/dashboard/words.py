"""The interface's words for what the code names by slug; those of findings are the ones that messages use too."""

import re
from typing import Final

from django.utils.text import capfirst
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from fleet.findings.words import ABSENT_TOO as ABSENT_TOO
from fleet.findings.words import ADVICE as ADVICE
from fleet.findings.words import AXIS as AXIS
from fleet.findings.words import CHANGE_KIND as CHANGE_KIND
from fleet.findings.words import CONDITION as CONDITION
from fleet.findings.words import CONFIDENCE as CONFIDENCE
from fleet.findings.words import FEATURE as FEATURE
from fleet.findings.words import METRIC as METRIC
from fleet.findings.words import SCOPE as SCOPE
from fleet.findings.words import SEVERITY as SEVERITY
from fleet.findings.words import evidence as evidence
from fleet.findings.words import metric as metric
from fleet.findings.words import note as note
from fleet.findings.words import word as word

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
    "switched_off": _("the driver is not told to keep it"),
    "paused": _("let go on command for a while"),
    "frozen": _("the readings stand still though they cannot"),
    "driver_error": _("another error of the driver"),
    "not_recorded": _("the recording lacks it"),
}

EVENT: Final = {
    "xid": _("XID error"),
    "sxid": _("NVSwitch error"),
    "oom": _("killed, memory ran out"),
    "ecc": _("ECC error"),
    "gpu_lost": _("GPU lost"),
    "gpu_back": _("GPU back"),
    "driver": _("driver"),
    "agent": _("agent"),
    "changed": pgettext_lazy("event", "changed"),
    "conflict": _("another node tells of the same GPU"),
    "cpu": pgettext_lazy("event", "machine check"),
    "memory": pgettext_lazy("event", "host memory"),
    "pcie": "PCIe",
    "hardware": pgettext_lazy("event", "hardware"),
    "command_done": _("command done"),
    "command_refused": _("command refused"),
}

REFUSAL: Final = {
    "malformed": _("not a message that the server knows"),
    "too_large": _("larger than 256 kB"),
    "need_hello": _("schema unknown on its connection"),
    "wrong_node": _("spoke for another node"),
    "wrong_boot": _("belonged to another boot"),
    "wrong_shape": _("a column's length did not match"),
    "bad_time": _(
        "its clock was over a minute ahead of the server's, further behind than samples are kept, or never set, or they were a backlog older than that: these samples are lost; set both clocks by NTP"
    ),
    "unknown_metric": _("a metric that is not in the registry"),
    "bad_hello": _("a hello that contradicts itself"),
    "busy": _("the server's queue was full; sent again later"),
    "conflict": _("two agents speak for this node: they share one token"),
    "two_nodes": _("two machines have this name: the same GPU index, another UUID, at the same time"),
    "double_gpu": _("another node tells of the same GPU: a clone, or a card with another's UUID"),
    "clock_set_back": _("its clock was set back: of a second that came twice the later sample is kept"),
    "out_of_range": _("values that cannot be; the rest of their batch was stored"),
}

NOT_MEASURED: Final = _("not measured")
UNKNOWN_SINCE: Final = _("unknown since")
UNJUDGED: Final = _("No sample comes: what holds it back now is unknown.")
NO_NEW_SAMPLE: Final = _("no sample in the last 30 seconds")
POWER_FROM: Final = _("sum over {from} of {of} GPUs")
SILENT: Final = _("{total} silent")
UNMEASURED: Final = _("{total} more: activity not measured")
RECORDING: Final = _("recording")
COVERED: Final = {
    "scheduled": _("for scheduled jobs"),
    "processes": _("for jobs that only processes show"),
    "unknown": _("for nobody that is known"),
}
"""Whose the GPUs' work of the last hour was."""
SHARED_MEANS: Final = _("Several jobs have the GPU at once: what is read of it is no single job's, and is never summed.")
NOISY_MEANS: Final = _(
    "It opened four times within an hour: it is held open, and nothing more is told of it until it keeps still."
)

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


SHORT_ENGINE: Final = {
    "requests_running": _("Running"),
    "requests_waiting": _("Waiting"),
    "kv_cache_used": _("KV cache"),
    "generation_tokens_per_s": _("Tokens/s"),
    "ttft_mean_s": _("TTFT mean"),
    "ttft_p95_s": _("TTFT p95"),
}
TOKENS_PER_S: Final = _("Generated tokens a second, mean of the last minute")
ENGINE_KIND: Final = {"vllm": "vLLM", "sglang": "SGLang", "triton": "Triton", "trtllm": "TensorRT-LLM"}
"""Products: the same in every language."""
ENGINE_SILENT: Final = _("the engine does not answer")
ENGINE_LACKS: Final = _("this engine does not tell it")

LABEL: Final = {
    "container": pgettext_lazy("process", "container"),
    "pod": pgettext_lazy("process", "pod"),
    "pod_name": pgettext_lazy("process", "pod"),
    "slurm_job": _("Slurm job"),
    "slurm_step": _("Slurm step"),
    "slurm_partition": _("Slurm partition"),
    "pid_in_namespace": _("PID inside"),
    "visible_gpus": pgettext_lazy("process", "may use"),
    "engine": pgettext_lazy("process", "engine"),
    "launcher": _("started by"),
    "torch": "PyTorch",
    "cuda": "CUDA",
}
"""What the words of a process are."""

RECOVERY: Final = {
    "0": pgettext_lazy("recovery action", "none"),
    "1": _("reset the GPU"),
    "2": _("reboot the node"),
    "3": _("drain peer-to-peer traffic"),
    "4": _("drain, then reset the GPU"),
    "5": _("recover IMEX"),
    "6": _("reset the bus"),
    "7": _("reboot the system"),
}
SOURCE: Final = {
    r"recordings (?P<one>\S+) and (?P<other>\S+)": _("recordings {one} and {other}"),
    r"recording (?P<one>\S+)": _("recording {one}"),
    r"planner (?P<name>\S+)": _("planner {name}"),
}
"""Sources of ours, by what they look like."""
YES: Final = _("yes")
NO: Final = _("no")


def source(text: str) -> str:
    """A source as a reader sees it: names of recordings, planners and documents stay, the words around them are of the reader's language."""
    for pattern, said in SOURCE.items():
        if match := re.fullmatch(pattern, text):
            return str(said).format(**match.groupdict())
    return gettext(text) if text else ""


def first_upper(text: str) -> str:
    """The text with its first letter upper case."""
    return str(capfirst(text))
