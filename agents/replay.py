"""Recordings played as whole nodes: start-up once, then the steady part again and again.

A recording's four samples a second become one tick: means are averaged, everything else is the last value of the second.
Counters go on growing across the repeats. A recording of n GPUs fills a node of more by copies, and the host and its
counters grow with them, so that every ratio stays the recording's.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from agents.config import ConfigError
from agents.device import DeviceEvent
from agents.source import GPU, HOST, PROCESS, Inventory, Tick, metric_major
from wire import recording
from wire.messages import Cell, GpuFacts, Hold, HostFacts, Processes
from wire.metrics import Metric, Number, accept, sent
from wire.recording import Recording, RecordingError, Sample

PATIENCE_S: Final = 2.0
SUSTAINED_S: Final = 1.0
ACTIVE: Final = 0.02
"""Share of time with work on the engine from which a GPU counts as active."""
SAVING_BYTES_PER_S: Final = 100e6
"""A checkpoint is written at 770 MB/s in the recordings; logs and compile caches stay far below."""
PID_STEP: Final = 1_000_000
RUN_PIDS: Final = 10_000
RUNS: Final = 90
"""Pids of a copy and of a run; a recording's own are below 10,000, so none meets another."""
USER: Final = "demo"

_GPU_METRICS: Final = tuple(sent("gpu"))
_HOST_METRICS: Final = tuple(sent("host"))
_PROCESS_METRICS: Final = tuple(sent("process"))
_FROM_HEADER: Final = ("power_limit_w", "sm_clock_max_mhz", "mem_clock_max_mhz", "mem_total_bytes")
_COUNTERS: Final = {
    scope: frozenset(i for i, metric in enumerate(sent(scope)) if metric.kind == "counter")
    for scope in ("gpu", "host", "process")
}
_SCALED: Final = frozenset(
    HOST.index(name)
    for name in (
        "cpu_busy_cores",
        "mem_used_bytes",
        "disk_read_bytes_total",
        "disk_write_bytes_total",
        "net_rx_bytes_total",
        "net_tx_bytes_total",
    )
)


class _Process(Struct):
    """A process in one second: what it did and what it holds, (recorded GPU, bytes) each."""

    values: list[Cell]
    holds: list[tuple[int, int | None]]


class _Second(Struct):
    """One second of a recording; `gpus[g]` and the like in the order of the registry."""

    gpus: list[list[Cell]]
    gpu_reasons: list[list[str | None]]
    host: list[Cell]
    host_reasons: list[str | None]
    processes: dict[int, _Process]
    holds_reasons: list[str | None]


def nodes(paths: Sequence[Path], gpus: int | None = None, speed: float = 1.0, run: int = 0) -> list[tuple[str, "ReplayNode"]]:
    """(node name, source) of every recording in `paths` (files, or directories of them); ConfigError when one is none.

    `run` tells one playing from the next: the program starts again, so its processes have other pids.
    """
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.jsonl*")) if path.is_dir() else [path]
    if not files:
        raise ConfigError(f"no recording in {', '.join(map(str, paths))}.")
    try:
        played = [recording.read(file) for file in files]
    except RecordingError as error:
        raise ConfigError(str(error)) from None
    return [(f"replay-{one.name.replace('_', '-')}", ReplayNode(one, gpus, speed, run=run)) for one in played]


def steady_span(played: Recording) -> tuple[float, float]:
    """Seconds at which the part worth repeating begins and ends.

    It begins with the steady part and ends before the process winds down: a run's exit, idle for seconds while workers and
    memory are let go, happens once and would look like a stall in every repeat.
    """
    samples = played.samples
    held = [sample.t for sample in samples if sample.processes or any(gpu.get("pids") for gpu in sample.gpus)]
    end = held[-1] if held else samples[-1].t
    began: float | None = None
    run_from: float | None = None
    for sample in samples:
        if not any(_is_active(gpu) for gpu in sample.gpus):
            run_from = None
            continue
        if run_from is None:
            run_from = sample.t
        if sample.t - run_from >= SUSTAINED_S:
            began = run_from
            break
    start = began + PATIENCE_S if began is not None else (held[0] if held else samples[0].t)
    if began is not None:
        end = min(end, max(_last_at_work(samples), start))
    if end - start < PATIENCE_S:  # too short to have a steady part: all of it is
        start = held[0] if held else samples[0].t
    return start, end


def _last_at_work(samples: Sequence[Sample]) -> float:
    """When a GPU last computed or its process last saved something."""
    last, before, written = samples[0].t, samples[0].t, 0.0
    for sample in samples:
        total = sum(_number(process.get("write_chars_total")) for process in sample.processes)
        saving = total - written > SAVING_BYTES_PER_S * (sample.t - before)
        if saving or any(_is_active(gpu) for gpu in sample.gpus):
            last = sample.t
        before, written = sample.t, max(total, written)
    return last


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _is_active(gpu: dict[str, Any]) -> bool:
    for name, scale in (("gr_engine_active", 1.0), ("gpu_util_pct", 0.01)):
        value = gpu.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value * scale >= ACTIVE
    return False


class ReplayNode:
    """One recording as a source of ticks."""

    def __init__(
        self,
        played: Recording,
        gpus: int | None = None,
        speed: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
        run: int = 0,
    ) -> None:
        recorded = max(1, max((len(sample.gpus) for sample in played.samples), default=1))
        self._recorded = recorded
        self._count = gpus or recorded
        self._scale = self._count / recorded
        self._name = played.name
        self._speed = speed
        self._first_pid = run % RUNS * RUN_PIDS
        self._monotonic = monotonic
        self._began: float | None = None
        start, end = steady_span(played)
        self._first, self._steady = _seconds(played, start, end, recorded)
        self._growth = _Growth(self._steady)
        self._facts = [self._gpu_facts(played, number) for number in range(self._count)]
        host = played.header.host
        self.inventory = Inventory(
            HostFacts(
                cores=None if host.cores is None else round(host.cores * self._scale),
                mem_total_bytes=None if host.mem_total_bytes is None else round(host.mem_total_bytes * self._scale),
                driver_version=played.header.driver_version,
                cuda_driver_version=played.header.cuda_driver_version,
            ),
            tuple(self._facts),
            recording=played.name,
        )

    def events(self) -> list[DeviceEvent]:
        """Nothing ever happens in a recording."""
        return []

    async def close(self) -> None:
        """Nothing to let go."""

    async def collect(self) -> Tick:
        """The second that is due now."""
        now = self._monotonic()
        if self._began is None:
            self._began = now
        return self.second(round((now - self._began) * self._speed))

    def second(self, position: int) -> Tick:
        """Second number `position` since the start."""
        if position < len(self._first):
            return self._tick(self._first[position], 0)
        loops, at = divmod(position - len(self._first), len(self._steady))
        return self._tick(self._steady[at], loops)

    def _tick(self, second: _Second, loops: int) -> Tick:
        growth = self._growth
        rows = [
            [_grown(value, growth.gpus[g], i, loops) for i, value in enumerate(row)] if loops else row
            for g, row in enumerate(second.gpus)
        ]
        copies = [(number // self._recorded, number % self._recorded) for number in range(self._count)]
        host = [_scaled(_grown(value, growth.host, i, loops), i, self._scale) for i, value in enumerate(second.host)]
        return Tick(
            gpu=metric_major([rows[g] for _, g in copies], len(GPU)),
            gpu_reasons=[second.gpu_reasons[g] for _, g in copies],
            host=host,
            host_reasons=second.host_reasons,
            holds_reasons=[second.holds_reasons[g] for _, g in copies],
            processes=self._processes(second, loops),
        )

    def _processes(self, second: _Second, loops: int) -> Processes:
        pids: list[int] = []
        rows: list[list[Cell]] = []
        holds: list[Hold] = []
        for copy in range(math.ceil(self._scale)):
            for pid, process in second.processes.items():
                held = [(copy * self._recorded + g, used) for g, used in process.holds if copy * self._recorded + g < self._count]
                if not held:
                    continue
                own = pid + self._first_pid + copy * PID_STEP
                growth = self._growth.processes.get(pid, {})
                pids.append(own)
                rows.append([_grown(value, growth, i, loops) for i, value in enumerate(process.values)])
                holds += [Hold(number, own, used) for number, used in held]
        return Processes(
            pid=pids,
            name=[self._name] * len(pids),
            user=[USER] * len(pids),
            values=metric_major(rows, len(PROCESS)),
            holds=holds,
        )

    def _gpu_facts(self, played: Recording, number: int) -> GpuFacts:
        cards = played.header.gpus
        card = cards[number % self._recorded] if number % self._recorded < len(cards) else recording.RecordedGpu(index=number)
        identity = hashlib.blake2s(f"{played.name}/{number}".encode(), digest_size=8).hexdigest()
        return GpuFacts(
            index=number,
            uuid=f"GPU-REPLAY-{identity}",
            name=card.name,
            compute_capability=card.compute_capability,
            mem_total_bytes=card.mem_total_bytes,
            power_limit_w=card.power_limit_w,
            power_limit_default_w=card.power_limit_default_w,
            sm_clock_max_mhz=None if card.sm_clock_max_mhz is None else round(card.sm_clock_max_mhz),
            mem_clock_max_mhz=None if card.mem_clock_max_mhz is None else round(card.mem_clock_max_mhz),
            pcie_link_gen_max=card.pcie_link_gen_max,
            pcie_link_width_max=card.pcie_link_width_max,
            nvlink_links=card.nvlink_links,
            nvlink_bytes_per_s_per_link=card.nvlink_bytes_per_s_per_link,
        )


class _Growth:
    """By how much each counter grows from one repeat of the steady part to the next."""

    def __init__(self, steady: list[_Second]) -> None:
        gpus = range(len(steady[0].gpus))
        self.gpus = [_grows("gpu", [second.gpus[g] for second in steady]) for g in gpus]
        self.host = _grows("host", [second.host for second in steady])
        self.processes: dict[int, dict[int, Number]] = {}
        for pid in {pid for second in steady for pid in second.processes}:
            seen = [second.processes[pid].values for second in steady if pid in second.processes]
            self.processes[pid] = _grows("process", seen)


def _grows(scope: str, rows: list[list[Cell]]) -> dict[int, Number]:
    """Position: growth over the whole part, the step from its end to its next start included."""
    found: dict[int, Number] = {}
    for i in _COUNTERS[scope]:
        values = [value for row in rows if (value := row[i]) is not None]
        if values:
            grown = values[-1] - values[0]
            grown += grown / (len(values) - 1) if len(values) > 1 else 0
            found[i] = round(grown) if isinstance(values[0], int) else grown
    return found


def _grown(value: Cell, growth: dict[int, Number], i: int, loops: int) -> Cell:
    return value if value is None or not loops or i not in growth else value + loops * growth[i]


def _scaled(value: Cell, i: int, scale: float) -> Cell:
    if value is None or scale == 1 or i not in _SCALED:
        return value
    return round(value * scale) if isinstance(value, int) else value * scale


def _seconds(played: Recording, start: float, end: float, gpus: int) -> tuple[list[_Second], list[_Second]]:
    """The seconds of the start-up and of the steady part; a second ends with the sample that closes it."""
    before = [sample for sample in played.samples if sample.t <= start]
    during = [sample for sample in played.samples if start < sample.t <= end]
    first = [_second(played, bucket, gpus) for bucket in _buckets(before, before[-1].t if before else start)]
    steady = [_second(played, bucket, gpus) for bucket in _buckets(during, end)]
    _keep_counters(first + steady)
    return first, steady or first[-1:]


def _buckets(samples: list[Sample], end: float) -> list[list[Sample]]:
    """Whole seconds that end with `end`; what is left over at the beginning belongs to the first."""
    buckets: dict[int, list[Sample]] = {}
    for sample in samples:
        buckets.setdefault(math.floor(end - sample.t + 1e-9), []).append(sample)
    ordered = [buckets[key] for key in sorted(buckets, reverse=True)]
    if len(ordered) > 1 and len(ordered[0]) < 2:
        ordered[1] = ordered.pop(0) + ordered[0]
    return ordered


def _second(played: Recording, samples: list[Sample], gpus: int) -> _Second:
    rows: list[list[Cell]] = []
    reasons: list[list[str | None]] = []
    for number in range(gpus):
        card = played.header.gpus[number] if number < len(played.header.gpus) else None
        raw = [sample.gpus[number] for sample in samples if number < len(sample.gpus)]
        constants = {name: getattr(card, name, None) for name in _FROM_HEADER} if card is not None else {}
        values, why = _aggregate(_GPU_METRICS, raw, constants)
        rows.append(values)
        reasons.append(why)
    host, host_reasons = _host(samples)
    told = [isinstance(gpu.get("pids"), dict) for gpu in samples[-1].gpus]
    unknown = [None if number < len(told) and told[number] else "not_recorded" for number in range(gpus)]
    return _Second(rows, reasons, host, host_reasons, _held(samples), unknown)


def _host(samples: list[Sample]) -> tuple[list[Cell], list[str | None]]:
    values, reasons = _aggregate(_HOST_METRICS, [sample.host for sample in samples], {})
    cores = [
        per_core
        for sample in samples
        if isinstance(per_core := sample.host.get("cpu_pct_per_core"), list)
        and per_core
        and all(isinstance(core, int | float) and 0 <= core <= 100 for core in per_core)
    ]
    if cores and len({len(per_core) for per_core in cores}) == 1:
        means = [sum(core) / len(cores) for core in zip(*cores, strict=True)]
        for name, value in (("cpu_busy_cores", sum(means) / 100), ("cpu_core_max_pct", max(means))):
            values[HOST.index(name)], reasons[HOST.index(name)] = value, None
    return values, reasons


def _held(samples: list[Sample]) -> dict[int, _Process]:
    """The processes that hold a GPU at the end of the second."""
    holds: dict[int, list[tuple[int, int | None]]] = {}
    for number, gpu in enumerate(samples[-1].gpus):
        for pid, used in dict(gpu.get("pids") or {}).items():
            if str(pid).isdigit():
                holds.setdefault(int(pid), []).append((number, used if isinstance(used, int) else None))
    found: dict[int, _Process] = {}
    for pid, held in holds.items():
        raw = [one for sample in samples for one in sample.processes if one.get("pid") == pid]
        values, _ = _aggregate(_PROCESS_METRICS, raw, {})
        found[pid] = _Process(values, held)
    return found


def _aggregate(
    metrics: tuple[Metric, ...], raw: list[dict[str, Any]], constants: dict[str, Any]
) -> tuple[list[Cell], list[str | None]]:
    """One value a metric of several samples: the mean of means, else the last that there is."""
    values: list[Cell] = []
    reasons: list[str | None] = []
    for metric in metrics:
        reason: str | None = "not_recorded"
        good: list[Number] = []
        for one in raw:
            if metric.name in one:
                value, reason = accept(metric, one[metric.name])
                if value is not None:
                    good.append(value)
        if not good and constants.get(metric.name) is not None:
            value, reason = accept(metric, constants[metric.name])
            good = [] if value is None else [value]
        if not good:
            values.append(None)
            reasons.append(reason or "not_recorded")
            continue
        values.append(sum(good) / len(good) if metric.kind == "mean" and len(good) > 1 else good[-1])
        reasons.append(None)
    return values, reasons


def _keep_counters(seconds: list[_Second]) -> None:
    """A counter that goes back within the recording (a reset, a glitch) stays where it was: the rest would read as one."""
    for number in range(len(seconds[0].gpus) if seconds else 0):
        _rise([second.gpus[number] for second in seconds], _COUNTERS["gpu"])
    _rise([second.host for second in seconds], _COUNTERS["host"])
    for pid in {pid for second in seconds for pid in second.processes}:
        _rise([second.processes[pid].values for second in seconds if pid in second.processes], _COUNTERS["process"])


def _rise(rows: list[list[Cell]], counters: frozenset[int]) -> None:
    for i in counters:
        highest: Cell = None
        for row in rows:
            value = row[i]
            if value is not None:
                highest = value if highest is None else max(highest, value)
                row[i] = highest
