"""The frames that agents and the server exchange, as msgspec Structs.

A binary frame is msgpack, a text frame JSON of the same Struct; `type` tells them apart. An absent
reading is None in its column, and its reason travels once, when it changes.
"""

import hashlib
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct, field

from wire import metrics
from wire.metrics import Number

PROTOCOL_VERSION = 1

PROCESSES = "processes"
"""In AbsentChange beside the registry's names: who holds the GPU could not be asked."""
PODS = "pods"
"""Likewise, of the host: which pod has which GPU could not be asked of the kubelet. What was told before stands meanwhile."""

KERNEL_LOG = "kernel_log"
"""Likewise, of the host: the kernel's log is not read, so XIDs that the driver does not report itself go unseen."""

COMMAND_DONE = "command_done"
COMMAND_REFUSED = "command_refused"
"""Kinds of the events by which an agent answers a Command; their code is its id."""

SEVERITIES = ("info", "warn", "critical")
"""Of an event: corrected by the hardware; not corrected, but survived; fatal."""

DETAILS = ("pci_bus_id", "sub_code", "recovery_action", "unit", "link", "mig_instance", "pid", "process", "switch", "fatal")
"""What an Event may say of itself beside its text. `fatal` is 1 or 0, of an NVSwitch's error; `unit` and `link` are of an NVLink's."""

Cell: TypeAlias = int | float | None
Whole: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""A number or a count of the server's: JSON would have it of any size, and msgpack, files and databases end here."""


class GpuFacts(Struct, frozen=True, kw_only=True):
    """What does not change while the agent runs. None: the device did not say."""

    index: int
    uuid: str
    name: str
    pci_bus_id: str | None = None
    compute_capability: str | None = None
    mem_total_bytes: int | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    sm_clock_max_mhz: int | None = None
    mem_clock_max_mhz: int | None = None
    pcie_link_gen_max: int | None = None
    pcie_link_width_max: int | None = None
    nvlink_links: int | None = None
    nvlink_bytes_per_s_per_link: float | None = None
    mig_mode: bool | None = None
    parent_uuid: str | None = None  # of a MIG instance: the GPU that it is a slice of
    mig_profile: str | None = None  # as the driver names it: 1g.10gb
    mig_gpu_instance: int | None = None
    mig_compute_instance: int | None = None
    memory_kind: str | None = None  # own: memory of the card alone; unified: one with the host's, so that none of it is the GPU's
    power_scope: str | None = (
        None  # gpu: power, limit and energy are the card's; module: the limit and the energy are shared with a CPU
    )
    power_average_s: float | None = None  # what power_w is a mean over; 0: an instant
    accounting_mode: bool | None = None  # True: the driver keeps an account of each process


class HostFacts(Struct, frozen=True, kw_only=True):
    """The node itself."""

    cores: int | None = None
    mem_total_bytes: int | None = None
    kernel: str | None = None
    driver_version: str | None = None
    cuda_driver_version: str | None = None
    cpu_governor: str | None = None  # of the first core
    numa_distances: dict[int, tuple[int, ...]] = field(default_factory=dict)  # node: to every node; 10 is its own memory
    gpu_numa_nodes: dict[str, int] = field(default_factory=dict)  # by GPU UUID; a GPU that is not here: not known
    nvidia_module_version: str | None = None
    nvidia_parameters: dict[str, str] = field(default_factory=dict)
    booted_at: float | None = None  # when the machine booted, UTC epoch seconds by its own clock
    rdma_ready: bool | None = None  # adapters may reach the GPUs' memory: nvidia_peermem is loaded, or DMA-BUF does it
    absent: dict[str, str] = field(default_factory=dict)  # by the name of a fact above: why it is not told, a metric's reason


class Hello(Struct, frozen=True, kw_only=True, tag="hello", tag_field="type"):
    """The first frame of a connection. GPU columns of later batches follow the order of `gpus`."""

    v: int = PROTOCOL_VERSION
    node: str
    boot: str  # one run of the agent: changes with every start, so that seq may begin at 0
    agent_version: str
    interval_s: float = 1.0
    host: HostFacts = HostFacts()
    gpus: tuple[GpuFacts, ...] = ()
    schema: str = ""
    gpu_metrics: tuple[str, ...] = ()
    host_metrics: tuple[str, ...] = ()
    process_metrics: tuple[str, ...] = ()
    engine_metrics: tuple[str, ...] = ()  # an agent from before serving engines were read has none
    recording: str | None = None  # the name of the recording being played; None: a real machine
    t: float | None = None  # the node's clock as the hello was sent; tells its skew before any batch does


class AbsentChange(Struct, frozen=True, array_like=True):
    """From this batch on, `metric` of this GPU (-1: the host) is absent for `reason`; None: it is back.

    `PROCESSES` stands for the list of the processes that hold the GPU: while it is absent, no hold does not mean nobody.
    """

    gpu: int
    metric: str
    reason: str | None


class Hold(Struct, frozen=True, array_like=True):
    """Process `pid` holds GPU number `gpu`; bytes of its memory, None where the driver will not say.

    A pid that is not in `Processes.pid` holds the GPU too: the driver names it, the agent cannot look into it (it has just
    ended, or lives in another namespace). It is kept without name, user and readings. Our own agent leaves such holds out.
    """

    gpu: int
    pid: int
    mem_bytes: int | None


class Labels(Struct, frozen=True, array_like=True):
    """What is known of process `pid` in words, as keys of `wire.labels.LABELS`; replaces what was told before."""

    pid: int
    labels: dict[str, str]


class Processes(Struct, frozen=True, kw_only=True):
    """The processes that hold a GPU; `values` is metric-major in the order of `Hello.process_metrics`.

    `labels` travel when a process is first told of and when they change, not with every tick.
    """

    pid: list[int] = field(default_factory=list)
    name: list[str] = field(default_factory=list)
    user: list[str] = field(default_factory=list)
    values: list[list[Cell]] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    labels: list[Labels] = field(default_factory=list)


class EngineAbsence(Struct, frozen=True, array_like=True):
    """Why engine `name` tells nothing at all (`reason`; None: it answers), or not some of its metrics; replaces what was told before."""

    name: str
    reason: str | None
    metrics: dict[str, str] = {}


class Engines(Struct, frozen=True, kw_only=True):
    """The serving engines of the node; `values` is metric-major in the order of `Hello.engine_metrics`.

    A name is where the engine is asked (`http://127.0.0.1:8000`), a kind one of `wire.labels.ENGINES`; `pid` is its
    process where that is known. An engine that could not be asked has its row with every value None. `absent` names
    engines of `name` whose reasons are new or changed.
    """

    name: list[str] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    model: list[str] = field(default_factory=list)
    pid: list[int | None] = field(default_factory=list)
    values: list[list[Cell]] = field(default_factory=list)
    absent: list[EngineAbsence] = field(default_factory=list)


class GpuLabels(Struct, frozen=True, array_like=True):
    """Who uses GPU number `gpu`, in keys of `wire.labels.GPU_LABELS`; replaces what was told before of it."""

    gpu: int
    labels: dict[str, str]


class Batch(Struct, frozen=True, kw_only=True, tag="batch", tag_field="type"):
    """One tick of one node. `gpu[m][g]` is metric m of GPU g; `t` is the node's clock, UTC epoch seconds.

    A column of `gpu` may be empty where the server's Welcome `holds` and metrics.HELD has the metric: nothing was read, and what was
    told last holds.
    """

    node: str
    boot: str
    seq: int
    schema: str
    t: float
    gpu: list[list[Cell]] = field(default_factory=list)
    host: list[Cell] = field(default_factory=list)
    processes: Processes = field(default_factory=Processes)
    engines: Engines = field(default_factory=Engines)
    absent: list[AbsentChange] = field(default_factory=list)
    gpu_labels: list[GpuLabels] = field(default_factory=list)  # those alone that are new or changed


class Event(Struct, frozen=True, kw_only=True, tag="event", tag_field="type"):
    """Something that happened: an XID, an ECC error, a GPU lost. Its seq counts apart from the batches'.

    A kind is xid, sxid (an NVSwitch's, with codes of its own), ecc, gpu_lost, gpu_back, oom, driver, agent, cpu, memory, pcie or
    hardware (what the kernel's log says of the machine's own parts), or bye: the agent was stopped in order. The server adds `changed` and
    `conflict`.
    """

    node: str
    boot: str
    seq: int
    t: float
    kind: str
    gpu_uuid: str | None = None
    code: int | None = None
    text: str = ""
    severity: str | None = None  # one of SEVERITIES; None: its source does not say
    details: dict[str, int | str] = field(default_factory=dict)  # keys of DETAILS; a server leaves out what it does not know


class Welcome(Struct, frozen=True, kw_only=True, tag="welcome", tag_field="type"):
    """The hello was taken; batches of its schema may follow. `holds`: GPU columns that were not read may be left empty."""

    schema: str
    holds: bool = False


class Refused(Struct, frozen=True, array_like=True):
    """The server will never store batch `seq`; drop it, count it."""

    seq: Whole
    code: str


class Ack(Struct, frozen=True, kw_only=True, tag="ack", tag_field="type"):
    """What is durable of this connection's boot: inclusive ranges of seqs, and what was refused."""

    boot: str
    stored: list[tuple[Whole, Whole]] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    events: list[tuple[Whole, Whole]] = field(default_factory=list)
    events_refused: list[Refused] = field(default_factory=list)


class Error(Struct, frozen=True, kw_only=True, tag="error", tag_field="type"):
    """A frame was refused. `code` is one of `codec.CODES`; `seq` names the batch where it could be read."""

    code: str
    detail: str
    seq: Whole | None = None


class Command(Struct, frozen=True, kw_only=True, tag="command", tag_field="type"):
    """Server to agent; an agent obeys only what its own configuration allows, and answers with an event.

    `pause_profiling` and `release` take `seconds`, 0 to end what was asked before; `by` names who asked, for the node's log.
    """

    name: str
    args: dict[str, Number | str] = field(default_factory=dict)
    id: Whole = 0  # the server's number of it, the code of the event that answers; 0: a server that has none


FromAgent: TypeAlias = Hello | Batch | Event
FromServer: TypeAlias = Welcome | Ack | Error | Command


def schema_id(gpu: tuple[str, ...], host: tuple[str, ...], process: tuple[str, ...], engine: tuple[str, ...] = ()) -> str:
    """Twelve hex digits that name an ordered list of metrics with their units."""
    columns = [
        f"{scope}.{name}" for scope, names in zip(("gpu", "host", "process", "engine"), (gpu, host, process, engine), strict=True)
        for name in names
    ]  # fmt: skip
    described = ";".join(f"{key}:{metrics.BY_KEY[key].unit}" if key in metrics.BY_KEY else f"{key}:?" for key in columns)
    return hashlib.blake2s(described.encode(), digest_size=6).hexdigest()
