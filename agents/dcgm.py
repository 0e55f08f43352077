"""dcgm-exporter in place of the driver: for a node whose NVML the agent may not open, or shall not open twice.

A tick takes what the endpoints' threads brought last, and takes nothing that is too old. Who holds a GPU, and events but XIDs, are not told by an exporter.
"""

import queue
import time
from collections.abc import Sequence
from typing import Final

from agents.dcgm_endpoint import Endpoint, Memory, TooManyGpusError
from agents.dcgm_readings import GPU_METRICS, PROFILED, STALE_S, GpuAnswer, Habits, readings
from agents.device import NO_ACCOUNTS, DeviceEvent, DriverError, GpuReader, Versions
from agents.gpu_slot import MAX_GPUS
from agents.scrape import DEADLINE_S, Target
from agents.told_gpu_labels import fit
from wire.dcgm_fields import MIG_MODE
from wire.messages import Cell, GpuFacts

MAX_AGE_S: Final = 15.0
"""An answer older than this is no reading of now."""
GONE_S: Final = 30.0
"""A GPU that the exporter has not named for so long, while it names others, is lost."""
MANY_HOSTS: Final = 3
"""Of the nodes that one exporter tells of, so many are named."""
_BLANK: Final = (
    "dcgm-exporter gives blanks or noughts for all profiling metrics of this GPU: end what else profiles it, then run `dcgmi profile --resume` "
    "on the node, or restart the exporter."
)
_XID: Final = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == "xid_errors_total")


class DcgmReader:
    """Reads one GPU from what the endpoints said last."""

    def __init__(
        self,
        uuid: str,
        endpoints: Sequence[Endpoint],
        mig_mode: bool | None = None,
        instances: tuple[str, ...] = (),
        parent: str | None = None,
    ) -> None:
        self.values: list[Cell] = [None] * len(GPU_METRICS)
        self.reasons: list[str | None] = ["no_previous"] * len(GPU_METRICS)
        self.holds: list[tuple[int, int | None]] = []
        self.holds_reason: str | None = "unsupported"
        self.xids = 0
        self.answered = False
        self.mig_mode = mig_mode
        self.instances = instances
        self.accounts = NO_ACCOUNTS
        self.labels: dict[str, str] = {}
        self.is_lost = False
        self._uuid = uuid
        self._card = parent or uuid  # whose power tells whether the exporter stands still
        self._endpoints = endpoints
        self._seen_at: float | None = None
        self._taken: list[GpuAnswer] = []
        self._is_profiling_blank = False

    def collect(self, now: float) -> None:
        """Take what is fresh at monotonic second `now`."""
        self._seen_at = now if self._seen_at is None else self._seen_at
        fresh = [endpoint for endpoint in self._endpoints if now - endpoint.at <= MAX_AGE_S]
        telling = [endpoint for endpoint in fresh if self._uuid in endpoint.gpus]
        if not telling:
            others = any(endpoint.gpus for endpoint in fresh)
            self.fail("gpu_lost" if others and now - self._seen_at > GONE_S else "timeout")
            return
        self._seen_at, self.is_lost = now, False
        live = [endpoint for endpoint in telling if not endpoint.is_frozen(self._card, now)]
        if not live:
            self.fail("timeout")
            return
        self.answered = True
        self._take([(endpoint.gpus[self._uuid], endpoint.habits) for endpoint in live])
        self.values[_XID], self.reasons[_XID] = self.xids, None
        self.holds_reason = "unsupported"

    def _take(self, answers: list[tuple[GpuAnswer, Habits]]) -> None:
        """Read the answers, unless they are those of the tick before."""
        told = [gpu for gpu, _ in answers]
        if len(told) == len(self._taken) and all(new is old for new, old in zip(told, self._taken, strict=True)):
            return
        self._taken = told
        self.values, self.reasons = readings(*answers[0])
        for more in answers[1:]:
            self._fill(*readings(*more))
        self._watch_profiling()
        self.mig_mode = is_split(told[0])
        self.instances = told[0].instances
        self.labels = labels(told[0])

    def _watch_profiling(self) -> None:
        """Tell of a card whose profiling went blank, and once it is back: DCGM itself says nothing."""
        is_told = any(self.values[position] is not None for position in PROFILED)
        is_blank = not is_told and any(self.reasons[position] == "blank" for position in PROFILED)
        if self._uuid != self._card or not (is_told if self._is_profiling_blank else is_blank):
            return
        self._is_profiling_blank = is_blank
        text = _BLANK if is_blank else "dcgm-exporter tells the profiling metrics of this GPU again."
        self._endpoints[0].tell(DeviceEvent("driver", self._uuid, None, text))

    def pause_profiling(self, until: float) -> None:
        """Nothing: the counters are DCGM's to let go, not ours."""

    def fail(self, reason: str) -> None:
        """Mark the whole GPU absent for `reason`."""
        self._taken = []
        self.values = [None] * len(GPU_METRICS)
        self.reasons = [reason] * len(GPU_METRICS)
        self.holds_reason = reason
        self.answered = False
        self.is_lost = reason == "gpu_lost"

    def _fill(self, values: list[Cell], reasons: list[str | None]) -> None:
        for position, value in enumerate(values):
            if self.values[position] is None and value is not None:
                self.values[position], self.reasons[position] = value, reasons[position]


class DcgmGpu:
    """One GPU as an exporter shows it."""

    def __init__(self, gpu: GpuAnswer, endpoints: Sequence[Endpoint], habits: Habits) -> None:
        self._endpoints = endpoints
        self._instances = gpu.instances
        values, _ = readings(gpu, habits)
        told = dict(zip((metric.name for metric in GPU_METRICS), values, strict=True))
        self.facts = GpuFacts(
            index=gpu.index,
            uuid=gpu.uuid,
            name=gpu.name,
            pci_bus_id=gpu.pci_bus_id,
            mem_total_bytes=_whole(told["mem_total_bytes"]),
            power_limit_w=told["power_limit_w"],
            sm_clock_max_mhz=_whole(told["sm_clock_max_mhz"]),
            mem_clock_max_mhz=_whole(told["mem_clock_max_mhz"]),
            mig_mode=is_split(gpu),
            parent_uuid=gpu.parent,
            mig_profile=gpu.profile,
            mig_gpu_instance=gpu.instance,
        )

    def reader(self, slow_s: float) -> GpuReader:
        """A reader of it; an exporter has one cadence for all, so `slow_s` changes nothing."""
        facts = self.facts
        return DcgmReader(facts.uuid, self._endpoints, facts.mig_mode, self._instances, facts.parent_uuid)


class DcgmDriver:
    """The GPUs that dcgm-exporters of this node tell of, joined by UUID; what the first does not tell, the next may."""

    is_exporter: Final = True
    """What does not answer here is no driver: see KeptDriver."""

    def __init__(self, targets: Sequence[Target], deadline_s: float = DEADLINE_S) -> None:
        self._targets = targets
        self._deadline_s = deadline_s
        self._events: queue.SimpleQueue[DeviceEvent] = queue.SimpleQueue()
        self._endpoints: tuple[Endpoint, ...] = ()
        self._versions = Versions()
        self._memories = {where: Memory() for where in targets}

    def open(self) -> tuple[DcgmGpu, ...]:
        """The GPUs that the exporters name; DriverError when none answers, none names a GPU, or they speak for several nodes."""
        endpoints = tuple(Endpoint(where, self._events.put, self._memories[where], self._deadline_s) for where in self._targets)
        for endpoint in endpoints:
            endpoint.ask()
        failures = [str(endpoint.error) for endpoint in endpoints if endpoint.error is not None]
        answers = [(gpu, endpoint) for endpoint in endpoints for gpu in endpoint.gpus.values()]
        hosts = sorted({host for gpu, _ in answers for host in gpu.hosts})
        if len(hosts) > 1:
            some = ", ".join(hosts[:MANY_HOSTS]) + (", ..." if len(hosts) > MANY_HOSTS else "")
            raise DriverError("several_nodes", f"dcgm-exporter tells of {some}")
        if any(isinstance(endpoint.error, TooManyGpusError) for endpoint in endpoints):
            raise DriverError("several_nodes", f"dcgm-exporter names more than {MAX_GPUS} GPUs")
        if len(failures) == len(endpoints):
            raise DriverError("no_exporter", " ".join(failures).rstrip("."))
        if not answers:
            names = " and ".join(endpoint.where.url for endpoint in endpoints if endpoint.error is None)
            raise DriverError("no_exporter", f"{names} answers and names no GPU")
        if len({gpu.uuid for gpu, _ in answers}) > MAX_GPUS:
            raise DriverError("several_nodes", f"dcgm-exporter names more than {MAX_GPUS} GPUs")
        now = time.monotonic()
        if all(endpoint.is_frozen(gpu.uuid, now) for gpu, endpoint in answers):
            raise DriverError("no_exporter", f"dcgm-exporter has told the same readings for more than {STALE_S:.0f} s")
        self._versions = Versions(
            next((gpu.driver for gpu, _ in answers if gpu.driver), None), next((gpu.cuda for gpu, _ in answers if gpu.cuda), None)
        )
        found: dict[str, DcgmGpu] = {}
        for gpu, endpoint in answers:
            if gpu.uuid not in found:
                found[gpu.uuid] = DcgmGpu(gpu, endpoints, endpoint.habits)
        for endpoint in endpoints:
            endpoint.tell_silence()
            endpoint.start()
        self._endpoints = endpoints
        return tuple(found.values())

    def versions(self) -> Versions:
        """What the exporter's labels say of the driver."""
        return self._versions

    def unreachable(self) -> tuple[str, ...]:
        """None: an exporter that does not answer is no GPU; it is told as an event of the driver."""
        return ()

    def event(self, timeout_ms: int) -> DeviceEvent | None:
        """The next XID; None after `timeout_ms`."""
        try:
            return self._events.get(timeout=timeout_ms / 1000)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Ask no more."""
        for endpoint in self._endpoints:
            endpoint.stop()
        self._endpoints = ()


def is_split(gpu: GpuAnswer) -> bool | None:
    """True for a GPU that is told of by its instances; None where nothing says so."""
    mode = gpu.own.get(MIG_MODE)
    return True if gpu.profiles else None if mode is None else bool(mode[0])


def labels(gpu: GpuAnswer) -> dict[str, str]:
    """Who uses it and what slice it is, in keys of `wire.labels.GPU_LABELS`; of a card that is split, those of all its instances."""
    told = dict(gpu.labels)
    if gpu.profile is not None:
        told |= {"mig_profile": {gpu.profile}, "mig_instance": {str(gpu.instance)}}
    elif gpu.profiles:
        told |= {"mig_profile": set(gpu.profiles.values()), "mig_instance": set(gpu.profiles)}
    return {key: value for name, values in told.items() for key, value in fit(name, values).items()}


def _whole(value: Cell) -> int | None:
    return None if value is None else int(value)
