"""Node sizing: the cores, memory, disks, network and power that a node's GPUs ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.planners import inputs
from advisor.planners.collectives import bus_factor
from advisor.planners.idle import without
from advisor.planners.planner import Caution, Parameter, Planner, shown
from advisor.planners.plot import Line, Plot
from advisor.text import _

SYSTEM_CORES: Final = 4
MEMORY_RATIO: Final = 1.5
POWER_MARGIN: Final = 1.15
COMMUNICATION_RATIO: Final = 0.3
"""Of a step: an all-reduce that takes longer cannot hide behind the backward pass."""


@dataclass(frozen=True, slots=True)
class NodeSize:
    """What a node needs; None where the input that it follows from was not given."""

    cores_needed: int = shown(_("CPU cores"), "count")
    cores_suffice: bool | None = shown(_("Its cores suffice"), "flag")
    host_memory_needed_bytes: float = shown(_("Host memory"), "bytes")
    host_memory_suffices: bool | None = shown(_("Its memory suffices"), "flag")
    host_to_gpu_memory_ratio: float | None = shown(_("Its memory, of the GPUs' memory"), "ratio")
    disk_read_bytes_per_s: float | None = shown(_("Reads"), "bytes_per_second")
    checkpoint_bytes: float | None = shown(_("A checkpoint"), "bytes")
    checkpoint_write_bytes_per_s: float | None = shown(_("Writes of a checkpoint, all nodes together"), "bytes_per_second")
    network_bytes_per_s: float | None = shown(_("Network of each GPU"), "bytes_per_second")
    power_w: float | None = shown(_("Power"), "watts")


def cores(gpus: int, workers_per_gpu: float) -> int:
    """CPU cores: a process and its workers for each GPU, and four for the system."""
    inputs.whole(gpus=gpus)
    inputs.not_negative(workers_per_gpu=workers_per_gpu)
    return round(gpus * (1 + workers_per_gpu)) + SYSTEM_CORES


def host_memory_bytes(gpus: int, gpu_memory_bytes: float, working_bytes: float = 0.0) -> float:
    """Bytes of host memory: one and a half times the GPUs', or what page cache, workers, pinned buffers and staging take together."""
    inputs.whole(gpus=gpus)
    inputs.positive(gpu_memory_bytes=gpu_memory_bytes)
    inputs.not_negative(working_bytes=working_bytes)
    return max(MEMORY_RATIO * gpus * gpu_memory_bytes, working_bytes)


def checkpoint_write_bytes_per_s(state_bytes: float, allowed_stall_s: float) -> float:
    """Bytes/s at which a checkpoint is written in the time that is allowed."""
    inputs.positive(state_bytes=state_bytes, allowed_stall_s=allowed_stall_s)
    return state_bytes / allowed_stall_s


def network_bytes_per_s(message_bytes: float, ranks: int, step_s: float) -> float:
    """Bytes/s for each GPU, so that an all-reduce takes at most 30 % of a step."""
    inputs.positive(message_bytes=message_bytes, step_s=step_s)
    return bus_factor("all-reduce", ranks) * message_bytes / (COMMUNICATION_RATIO * step_s)


def node_size(
    gpus: int,
    gpu_memory_bytes: float,
    workers_per_gpu: float = 4.0,
    working_bytes: float = 0.0,
    cores_present: int | None = None,
    host_memory_present_bytes: float | None = None,
    samples_per_s: float | None = None,
    disk_size_bytes: float | None = None,
    parameters: float | None = None,
    state_bytes_per_parameter: float = 14.0,
    allowed_stall_s: float = 60.0,
    message_bytes: float | None = None,
    ranks: int | None = None,
    step_s: float | None = None,
    tdp_w: float | None = None,
    host_power_w: float = 1000.0,
) -> NodeSize:
    """What a node of `gpus` GPUs needs, and whether the cores and memory that it has suffice."""
    need_cores = cores(gpus, workers_per_gpu)
    need_memory = host_memory_bytes(gpus, gpu_memory_bytes, working_bytes)
    given = {"cores_present": cores_present, "host_memory_present_bytes": host_memory_present_bytes, "tdp_w": tdp_w}
    inputs.positive(**{name: value for name, value in given.items() if value is not None})
    inputs.not_negative(host_power_w=host_power_w)
    state = None if parameters is None else parameters * state_bytes_per_parameter
    reads = network = None
    if samples_per_s is not None and disk_size_bytes is not None:
        inputs.positive(samples_per_s=samples_per_s, disk_size_bytes=disk_size_bytes)
        reads = gpus * samples_per_s * disk_size_bytes
    if message_bytes is not None and ranks is not None and step_s is not None:
        network = network_bytes_per_s(message_bytes, ranks, step_s)
    return NodeSize(
        cores_needed=need_cores,
        cores_suffice=None if cores_present is None else cores_present >= need_cores,
        host_memory_needed_bytes=need_memory,
        host_memory_suffices=None if host_memory_present_bytes is None else host_memory_present_bytes >= need_memory,
        host_to_gpu_memory_ratio=None if host_memory_present_bytes is None else host_memory_present_bytes / (gpus * gpu_memory_bytes),
        disk_read_bytes_per_s=reads,
        checkpoint_bytes=state,
        checkpoint_write_bytes_per_s=None if state is None else checkpoint_write_bytes_per_s(state, allowed_stall_s),
        network_bytes_per_s=network,
        power_w=None if tdp_w is None else POWER_MARGIN * (gpus * tdp_w + host_power_w),
    )  # fmt: skip


def _cores(taken: Mapping[str, Any], _result: NodeSize, workers_per_gpu: float) -> Mapping[str, float | None]:
    """What the cores are for."""
    return {"system": SYSTEM_CORES, "ranks": taken["gpus"], "workers": taken["gpus"] * workers_per_gpu}


PLANNER: Final = Planner(
    name="node-size",
    title=_("Node sizing"),
    about=_("Cores, host memory, disks, network and power for the GPUs of a node"),
    formula=(
        _("cores = GPUs*(1 + workers) + 4; host memory = max(1.5*GPUs' memory, what the work takes)"),
        _("reads = GPUs*samples/s*bytes; checkpoint = parameters*bytes/allowed stall; power = 1.15*(GPUs*TDP + host)"),
        _("network of each GPU: an all-reduce in 30 % of a step, 2*(n-1)/n*message/(0.3*step)"),
    ),
    assumptions=(
        _("Workers for each GPU: 2 for text, 4 for images, 6 to 12 for video and heavy decoding."),
        _("What the work takes is page cache, workers, pinned buffers and checkpoints that are staged, together."),
        _("A checkpoint of mixed-precision Adam is 14 bytes a parameter: FP32 master and two moments, 16-bit weights."),
    ),
    sources=("https://github.com/stas00/ml-engineering",),
    parameters=(
        Parameter("gpus", "count", _("GPUs of the node"), low=1, high=1e4, slider=(1, 16), whole=True),
        Parameter("gpu_memory_bytes", "bytes", _("Memory of a GPU"), low=1, slider=(8e9, 3e11), of_card="memory_bytes"),
        Parameter("workers_per_gpu", "count", _("DataLoader workers of each GPU"), default=4.0, high=1e4, slider=(0, 32)),
        Parameter("working_bytes", "bytes", _("Host memory that the work takes, where known"), default=0.0, slider=(0, 4e12)),
        Parameter("cores_present", "count", _("Cores that the node has"), optional=True, low=1, high=1e6, slider=(4, 512), whole=True),
        Parameter("host_memory_present_bytes", "bytes", _("Memory that the node has"), optional=True, low=1, slider=(1e10, 4e12)),
        Parameter("samples_per_s", "per_second", _("Samples a second of a GPU"), optional=True, low=1e-12, slider=(1, 1e4)),
        Parameter("disk_size_bytes", "bytes", _("Size of a sample on disk"), optional=True, low=1e-3, slider=(1e3, 1e8)),
        Parameter("parameters", "count", _("Parameters of the model, for its checkpoint"), optional=True, low=1, slider=(1e8, 1e12)),
        Parameter("state_bytes_per_parameter", "count", _("Bytes of a parameter in a checkpoint"), default=14.0, low=0.1, high=100, slider=(2, 18)),
        Parameter("allowed_stall_s", "seconds", _("Time that a save may take"), default=60.0, low=1e-3, high=1e6, slider=(1, 600)),
        Parameter("message_bytes", "bytes", _("What is all-reduced in a step"), optional=True, low=1e-3, slider=(1e6, 1e12)),
        Parameter("ranks", "count", _("GPUs that take part in it"), optional=True, low=1, high=1e7, slider=(2, 1024), whole=True),
        Parameter("step_s", "seconds", _("Time of a step"), optional=True, low=1e-9, high=1e6, slider=(0.01, 100)),
        Parameter("tdp_w", "watts", _("Power of a GPU at its limit"), optional=True, low=1, high=1e5, slider=(50, 1500), of_card="tdp_w"),
        Parameter("host_power_w", "watts", _("Power of the rest of the node"), default=1000.0, high=1e6, slider=(100, 5000)),
    ),
    call=node_size,
    result=NodeSize,
    example={"gpus": "8", "card": "H100 SXM", "cores_present": "32", "host_memory_present_bytes": "128GB"},
    answers=("cores_needed", "host_memory_needed_bytes", "power_w"),
    cautions=(
        Caution("cores_suffice", lambda suffice: not suffice, _("The node has too few cores: its GPUs will wait for data.")),
        Caution("host_memory_suffices", lambda suffices: not suffices, _("The node has too little memory for the page cache and for staging checkpoints.")),
    ),
    idle=(
        without("samples_per_s", "disk_size_bytes"),
        without("disk_size_bytes", "samples_per_s"),
        without("state_bytes_per_parameter allowed_stall_s", "parameters"),
        without("message_bytes", "ranks", "step_s"),
        without("ranks", "message_bytes", "step_s"),
        without("step_s", "message_bytes", "ranks"),
        without("host_power_w", "tdp_w"),
    ),
    plots=(
        Plot(
            _("Cores over the workers of each GPU"), "workers_per_gpu",
            (Line("system", _("System"), "count"), Line("ranks", _("A process for each GPU"), "count"), Line("workers", _("DataLoader workers"), "count")),
            stacked=True, limit="cores_present", curve=_cores,
        ),
    ),
)  # fmt: skip
