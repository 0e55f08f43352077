"""Where ticks come from: this machine or a recording, behind one protocol."""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct, field

from agents.device import DeviceEvent
from agents.fitted_hello import fitted
from wire.messages import (
    KERNEL_LOG,
    PODS,
    PROCESSES,
    AbsentChange,
    Cell,
    Engines,
    GpuFacts,
    Hello,
    HostFacts,
    Processes,
    schema_id,
)
from wire.metrics import sent

GPU: Final = tuple(metric.name for metric in sent("gpu"))
HOST: Final = tuple(metric.name for metric in sent("host"))
PROCESS: Final = tuple(metric.name for metric in sent("process"))
ENGINE: Final = tuple(metric.name for metric in sent("engine"))
SCHEMA: Final = schema_id(GPU, HOST, PROCESS, ENGINE)
ALL_GPUS: Final = -1


class Inventory(Struct, frozen=True):
    """What a hello tells of a node."""

    host: HostFacts
    gpus: tuple[GpuFacts, ...]
    recording: str | None = None

    def hello(self, node: str, boot: str, version: str, interval_s: float) -> Hello:
        """The first frame of a connection, no larger than a server takes."""
        return fitted(
            Hello(
                node=node,
                boot=boot,
                agent_version=version,
                interval_s=interval_s,
                host=self.host,
                gpus=self.gpus,
                schema=SCHEMA,
                gpu_metrics=GPU,
                host_metrics=HOST,
                process_metrics=PROCESS,
                engine_metrics=ENGINE,
                recording=self.recording,
            )
        )


class Tick(Struct):
    """One second of one node. `gpu[m][g]` and `gpu_reasons[g][m]`: metric m of GPU, GPU g; exactly one is None.

    `holds_reasons[g]` says why nobody knows who holds GPU g; None, or no entry: `processes` tells.
    """

    gpu: list[list[Cell]]
    gpu_reasons: list[list[str | None]]
    host: list[Cell]
    host_reasons: list[str | None]
    processes: Processes = field(default_factory=Processes)
    holds_reasons: list[str | None] = field(default_factory=list)
    process_reasons: list[list[str | None]] = field(default_factory=list)  # [process][metric], for people alone
    engines: Engines = field(default_factory=Engines)
    engine_reasons: list[list[str | None]] = field(default_factory=list)  # [engine][metric]
    gpu_labels: list[dict[str, str]] = field(default_factory=list)  # [gpu], keys of wire.labels.GPU_LABELS
    pods_reason: str | None = None  # why the kubelet does not say which pod has which GPU; None: it does, or there is none
    kernel_log_reason: str | None = None  # why the kernel's log is not read; None: it is, or nobody was to read it


class EventSource(Protocol):
    """Something that reports what happens, beside what is read each tick."""

    def notify(self, on_event: Callable[[], None]) -> None:
        """Call `on_event`, in any thread, as soon as there is something to report."""

    def events(self) -> list[DeviceEvent]:
        """What happened since the call before."""


class Source(Protocol):
    """A node to speak for."""

    @property
    def inventory(self) -> Inventory:
        """What the node has now; another object once that changed."""

    async def collect(self) -> Tick:
        """Read everything once; takes less than the interval, whatever hangs."""

    def events(self) -> list[DeviceEvent]:
        """What happened since the call before."""

    async def close(self) -> None:
        """Let the devices go; takes less than a second."""


def metric_major(rows: list[list[Cell]], width: int) -> list[list[Cell]]:
    """Columns of `rows`: one list a metric; `width` empty lists where there are no rows."""
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in range(width)]


class Absences:
    """Which readings are absent and why; tells what changed."""

    def __init__(self) -> None:
        self._gpu: list[list[str | None]] = []
        self._holds: list[str | None] = []
        self._host: list[str | None] = [None] * len(HOST)
        self._pods: str | None = None
        self._kernel_log: str | None = None

    def changes(self, tick: Tick) -> list[AbsentChange]:
        """Changes since the tick before; after `reset`, everything that is absent."""
        found: list[AbsentChange] = []
        while len(self._gpu) < len(tick.gpu_reasons):
            self._gpu.append([None] * len(GPU))
        self._holds += [None] * (len(tick.holds_reasons) - len(self._holds))
        for number, reasons in enumerate(tick.gpu_reasons):
            if reasons != self._gpu[number]:
                found += _changes(number, GPU, self._gpu[number], reasons)
                self._gpu[number] = list(reasons)
        for number, reason in enumerate(tick.holds_reasons):
            if reason != self._holds[number]:
                found.append(AbsentChange(number, PROCESSES, reason))
                self._holds[number] = reason
        if tick.host_reasons != self._host:
            found += _changes(ALL_GPUS, HOST, self._host, tick.host_reasons)
            self._host = list(tick.host_reasons)
        if tick.pods_reason != self._pods:
            found.append(AbsentChange(ALL_GPUS, PODS, tick.pods_reason))
            self._pods = tick.pods_reason
        if tick.kernel_log_reason != self._kernel_log:
            found.append(AbsentChange(ALL_GPUS, KERNEL_LOG, tick.kernel_log_reason))
            self._kernel_log = tick.kernel_log_reason
        return found

    def reset(self) -> None:
        """Tell everything again with the next tick: what was told may not have arrived.

        A metric that is back is known by its value. Processes and pods may be back and none, so their return is told again as well.
        """
        self._gpu = []
        self._holds = ["untold"] * len(self._holds)
        self._pods = self._pods and "untold"
        self._kernel_log = self._kernel_log and "untold"
        self._host = [None] * len(HOST)


def _changes(gpu: int, names: tuple[str, ...], before: list[str | None], now: list[str | None]) -> list[AbsentChange]:
    return [AbsentChange(gpu, name, b) for name, a, b in zip(names, before, now, strict=True) if a != b]
