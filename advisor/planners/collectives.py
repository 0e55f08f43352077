"""Collectives: the least time that a message takes between GPUs at a bus bandwidth."""

from dataclasses import dataclass
from typing import Final

from advisor.planners import inputs
from advisor.planners.idle import Idle
from advisor.planners.planner import Caution, Parameter, Planner, shown
from advisor.planners.plot import Plot
from advisor.text import _

OPERATIONS: Final = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "reduce")


@dataclass(frozen=True, slots=True)
class Collective:
    """`step_ratio` is the share of a step, None where no step time was given; without a latency the least time is that of the transfer alone."""

    sent_bytes: float = shown(_("Bytes over each GPU's link"), "bytes")
    transfer_s: float = shown(_("Transfer"), "seconds")
    latency_s: float | None = shown(_("Latency"), "seconds")
    least_s: float = shown(_("Least time"), "seconds")
    step_ratio: float | None = shown(_("Of a step, where nothing overlaps"), "ratio")


def bus_factor(operation: str, ranks: int) -> float:
    """Times the message that crosses each rank's link, as nccl-tests counts bus bandwidth."""
    inputs.one_of("operation", operation, OPERATIONS)
    inputs.whole(ranks=ranks)
    if operation == "all-reduce":
        return 2 * (ranks - 1) / ranks
    if operation in ("broadcast", "reduce"):
        return 1.0 if ranks > 1 else 0.0
    return (ranks - 1) / ranks


def collective_s(operation: str, message_bytes: float, ranks: int, bus_bytes_per_s: float, latency_s: float = 0.0) -> float:
    """Least seconds of one collective; `bus_bytes_per_s` is nccl-tests' busbw at that size."""
    inputs.positive(message_bytes=message_bytes, bus_bytes_per_s=bus_bytes_per_s)
    inputs.not_negative(latency_s=latency_s)
    return bus_factor(operation, ranks) * message_bytes / bus_bytes_per_s + (latency_s if ranks > 1 else 0.0)


def data_parallel_bytes(parameters: float, bytes_per_parameter: float, ranks: int, sharded: bool = False) -> float:
    """Bytes over each rank's link for a step of the optimizer: DDP all-reduces once; ZeRO-3 and FSDP gather twice and scatter once."""
    inputs.positive(parameters=parameters, bytes_per_parameter=bytes_per_parameter)
    inputs.whole(ranks=ranks)
    return (3 if sharded else 2) * (ranks - 1) / ranks * parameters * bytes_per_parameter


def tensor_parallel_bytes(layers: int, sequence: int, micro_batch: int, hidden: int, bytes_per_value: float, ranks: int) -> float:
    """Bytes over each rank's link for a micro-batch forward and backward: four all-reduces of the activations in each layer."""
    inputs.whole(layers=layers, sequence=sequence, micro_batch=micro_batch, hidden=hidden)
    inputs.positive(bytes_per_value=bytes_per_value)
    return 4.0 * layers * bus_factor("all-reduce", ranks) * sequence * micro_batch * hidden * bytes_per_value


def collectives(
    message_bytes: float,
    ranks: int,
    bus_bytes_per_s: float,
    operation: str = "all-reduce",
    times: int = 1,
    latency_s: float | None = None,
    step_s: float | None = None,
) -> Collective:
    """The least time of `times` collectives one after another."""
    inputs.whole(times=times)
    moved = times * bus_factor(operation, ranks) * message_bytes
    transfer = times * collective_s(operation, message_bytes, ranks, bus_bytes_per_s)
    latency = None
    if latency_s is not None:
        inputs.not_negative(latency_s=latency_s)
        latency = times * latency_s if ranks > 1 else 0.0  # not what is left of the sum: a difference of floats is seldom 0
    if step_s is not None:
        inputs.positive(step_s=step_s)
    least = transfer + (latency or 0.0)
    return Collective(moved, transfer, latency, least, None if step_s is None else least / step_s)


PLANNER: Final = Planner(
    name="collectives",
    title=_("Collectives"),
    about=_("The least time of an all-reduce or another collective over a link"),
    formula=(
        _("all-reduce 2*(n-1)/n*S/B; reduce-scatter, all-gather, all-to-all (n-1)/n*S/B; broadcast, reduce S/B; plus the latency"),
        _("a step moves: DDP 2*(n-1)/n*P*bytes; ZeRO-3 and FSDP 3*(n-1)/n*P*bytes; tensor parallel 4 all-reduces of s*b*h*bytes a layer"),
    ),
    assumptions=(
        _("B is the bus bandwidth that nccl-tests measures at that size; a link's own figure is a ceiling that no collective reaches."),
        _("Vendors print links both ways together; one way is half: PCIe 4.0 x16 about 31 GB/s, PCIe 5.0 x16 about 63 GB/s."),
        _("For small messages latency is most of the time: about 10 to 30 µs inside a node, 20 to 60 µs between nodes."),
        _("What overlaps with compute costs less; this is what it takes alone."),
    ),
    sources=("https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md",),
    parameters=(
        Parameter("message_bytes", "bytes", _("Size of the message"), low=1e-3, slider=(1e3, 1e12)),
        Parameter("ranks", "count", _("GPUs that take part"), low=1, high=1e7, slider=(2, 1024), whole=True),
        Parameter("bus_bytes_per_s", "bytes_per_second", _("Bus bandwidth"), low=1, slider=(1e8, 2e12)),
        Parameter("operation", "words", _("Which collective"), default="all-reduce", choices=OPERATIONS),
        Parameter("times", "count", _("How many, one after another; FSDP makes 3 a step"), default=1, low=1, high=1e6, slider=(1, 500), whole=True),
        Parameter("latency_s", "seconds", _("Latency of each; without it none is counted"), optional=True, high=1e3, slider=(0, 1e-4)),
        Parameter("step_s", "seconds", _("Time of a step, to compare with"), optional=True, low=1e-9, high=1e9, slider=(0.01, 100)),
    ),
    call=collectives,
    result=Collective,
    example={"message_bytes": "14GB", "ranks": "8", "bus_bytes_per_s": "360GB/s"},
    answers=("least_s", "sent_bytes", "step_ratio"),
    cautions=(
        Caution("step_ratio", lambda ratio: ratio >= 0.3, _("Above 30 % of a step it hardly hides behind the backward pass.")),
    ),
    idle=(Idle(("latency_s",), lambda taken: taken["ranks"] == 1, "ranks"),),
    plots=(Plot(_("Least time over the size of the message"), "message_bytes", ("least_s", "transfer_s", "latency_s"), log_y=True, span=1e4),),
)  # fmt: skip
