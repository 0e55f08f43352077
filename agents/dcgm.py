"""dcgm-exporter in place of the driver: for a node whose NVML the agent may not open, or shall not open twice.

Each endpoint is asked in a thread of its own, every second while its answers change and more rarely while it repeats itself; a tick
takes what came last, and takes nothing that is too old. Who holds a GPU, and events but XIDs, are not told by an exporter.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from agents.dcgm_fields import MIG_MODE, STARTS
from agents.dcgm_readings import GPU_METRICS, STALE_S, GpuAnswer, Habits, gpus, readings
from agents.device import DeviceEvent, DriverError, GpuReader, Versions
from agents.scrape import DEADLINE_S, Parser, ScrapeError, Target, fetch
from wire.messages import Cell, GpuFacts

log = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
PERIOD_MAX_S: Final = 5.0
"""An exporter renews its values every 30 s by default: asking it again at once brings the same bytes."""
MAX_AGE_S: Final = 15.0
"""An answer older than this is no reading of now."""
GONE_S: Final = 30.0
"""A GPU that the exporter has not named for so long, while it names others, is lost."""
MAX_GPUS: Final = 64
"""No node has more."""
_XID: Final = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == "xid_errors_total")


@dataclass(slots=True)
class Memory:
    """What is known of an exporter over openings of the driver: one that stood still before is not live for being asked anew."""

    habits: Habits = field(default_factory=Habits)
    xids: dict[str, int] = field(default_factory=dict)
    changed: dict[str, tuple[tuple[object, ...], float]] = field(default_factory=dict)
    """By UUID: what the GPU's readings look like, and since which monotonic second."""


class Endpoint:
    """One exporter. `gpus` is what it said last, `at` the monotonic second of its last answer, `error` why there is none."""

    def __init__(
        self, where: Target, tell: Callable[[DeviceEvent], None], memory: Memory, deadline_s: float = DEADLINE_S
    ) -> None:
        self.where = where
        self.gpus: dict[str, GpuAnswer] = {}
        self.at = float("-inf")
        self.error: ScrapeError | None = None
        self.habits = memory.habits
        self._memory = memory
        self._tell = tell
        self._deadline_s = deadline_s
        self._body = b""
        self._has_times = False
        self._parser = Parser(STARTS)
        self._bad_lines = 0
        self._period = PERIOD_S
        self._stop = threading.Event()

    def start(self) -> None:
        """Ask now and then until `stop`."""
        threading.Thread(target=self._run, name=f"dcgm-{self.where.origin}", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()

    def ask(self) -> None:
        """One scrape; a failure is kept in `error`."""
        try:
            body = fetch(self.where, self._deadline_s)
            if body != self._body or self._has_times:  # what has a time of its own ages though it stays the same
                self._take(body)
                self._period = PERIOD_S
            else:
                self._period = min(PERIOD_MAX_S, self._period * 2)
        except ScrapeError as error:
            self.error = error
            return
        self.at, self.error = time.monotonic(), None

    def is_frozen(self, uuid: str, now: float) -> bool:
        """True for a GPU whose every reading, power among them, has stood still for longer than any live one's would."""
        before = self._memory.changed.get(uuid)
        return before is not None and before[0] != () and now - before[1] > STALE_S

    def _take(self, body: bytes) -> None:
        parsed = self._parser.read(body)
        self._has_times = any(sample.at is not None for sample in parsed.samples)
        if parsed.bad_lines and not self._bad_lines:
            log.warning("%s answers with %d lines that are no samples; they are left out.", self.where.url, parsed.bad_lines)
        self._bad_lines = parsed.bad_lines
        answers = gpus(parsed.samples, time.time())
        now = time.monotonic()
        for uuid, gpu in answers.items():
            fingerprint = gpu.fingerprint
            before = self._memory.changed.get(uuid)
            if before is None or before[0] != fingerprint:
                self._memory.changed[uuid] = (fingerprint, now)
            self._watch_xid(gpu)
        self.gpus, self._body = answers, body

    def _watch_xid(self, gpu: GpuAnswer) -> None:
        """The exporter shows the last code for ever: another one is an event, the one that was there at first is not."""
        code = gpu.xid
        if code is None:
            return
        before = self._memory.xids.get(gpu.uuid)
        self._memory.xids[gpu.uuid] = code
        if before is not None and code != before and code != 0:
            self._tell(DeviceEvent("xid", gpu.uuid, code, f"XID {code}"))

    def _run(self) -> None:
        while not self._stop.wait(self._period):
            failed = self.error is not None
            try:
                self.ask()
            except Exception:
                log.exception("%s could not be read; it is asked again", self.where.url)
                continue
            if self.error is not None and not failed:
                log.warning("%s The readings that it brings are absent until it answers.", self.error)
            elif self.error is None and failed:
                log.info("%s answers again.", self.where.url)


class DcgmReader:
    """Reads one GPU from what the endpoints said last."""

    def __init__(self, uuid: str, endpoints: Sequence[Endpoint], mig_mode: bool | None) -> None:
        self.values: list[Cell] = [None] * len(GPU_METRICS)
        self.reasons: list[str | None] = ["no_previous"] * len(GPU_METRICS)
        self.holds: list[tuple[int, int | None]] = []
        self.holds_reason: str | None = "unsupported"
        self.xids = 0
        self.answered = False
        self.mig_mode = mig_mode
        self.instances: tuple[str, ...] = ()  # the exporter tells of each as it likes
        self.labels: dict[str, str] = {}
        self.is_lost = False
        self._uuid = uuid
        self._endpoints = endpoints
        self._seen_at: float | None = None
        self._taken: list[GpuAnswer] = []

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
        live = [endpoint for endpoint in telling if not endpoint.is_frozen(self._uuid, now)]
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
        self.mig_mode = is_split(told[0])
        self.labels = {name: ",".join(sorted(values)) for name, values in told[0].labels.items()}

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
        )

    def reader(self, slow_s: float) -> GpuReader:
        """A reader of it; an exporter has one cadence for all, so `slow_s` changes nothing."""
        return DcgmReader(self.facts.uuid, self._endpoints, self.facts.mig_mode)


class DcgmDriver:
    """The GPUs that dcgm-exporters of this node tell of, joined by UUID; what the first does not tell, the next may."""

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
            raise DriverError("several_nodes", f"dcgm-exporter tells of {', '.join(hosts)}")
        if len(failures) == len(endpoints):
            raise DriverError("no_exporter", " ".join(failures).rstrip("."))
        if not answers:
            raise DriverError("no_gpu", "dcgm-exporter names no GPU")
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
            endpoint.start()
        self._endpoints = endpoints
        return tuple(found.values())

    def versions(self) -> Versions:
        """What the exporter's labels say of the driver."""
        return self._versions

    def unreachable(self) -> tuple[str, ...]:
        """Exporters that do not answer, a sentence each."""
        return tuple(str(endpoint.error) for endpoint in self._endpoints if endpoint.error is not None)

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


def _whole(value: Cell) -> int | None:
    return None if value is None else int(value)
