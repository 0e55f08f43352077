"""What a recording holds, as whole seconds: its start-up, and the steady part that is worth repeating.

A recording's four samples a second become one: means are averaged, everything else is the last value of the second.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from agents.source import HOST
from wire.messages import Cell
from wire.metrics import Metric, Number, accept, sent
from wire.recording import Recording, Sample

PATIENCE_S: Final = 2.0
SUSTAINED_S: Final = 1.0
ACTIVE: Final = 0.02
"""Share of time with work on the engine from which a GPU counts as active."""
SAVING_BYTES_PER_S: Final = 100e6
"""A checkpoint is written at 770 MB/s in the recordings; logs and compile caches stay far below."""

_GPU_METRICS: Final = tuple(sent("gpu"))
_HOST_METRICS: Final = tuple(sent("host"))
_PROCESS_METRICS: Final = tuple(sent("process"))
_FROM_HEADER: Final = ("power_limit_w", "sm_clock_max_mhz", "mem_clock_max_mhz", "mem_total_bytes")
COUNTERS: Final = {
    scope: frozenset(i for i, metric in enumerate(sent(scope)) if metric.kind == "counter")
    for scope in ("gpu", "host", "process")
}
"""Positions of the counters in the registry's order, by scope."""


class Process(Struct):
    """A process in one second: what it did and what it holds, (recorded GPU, bytes) each."""

    values: list[Cell]
    holds: list[tuple[int, int | None]]


class Second(Struct):
    """One second of a recording; `gpus[g]` and the like in the order of the registry."""

    gpus: list[list[Cell]]
    gpu_reasons: list[list[str | None]]
    host: list[Cell]
    host_reasons: list[str | None]
    processes: dict[int, Process]
    holds_reasons: list[str | None]


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


def seconds(played: Recording, gpus: int) -> tuple[list[Second], list[Second]]:
    """The seconds of the start-up and of the steady part; a second ends with the sample that closes it."""
    start, end = steady_span(played)
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


def _second(played: Recording, samples: list[Sample], gpus: int) -> Second:
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
    return Second(rows, reasons, host, host_reasons, _held(samples), unknown)


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


def _held(samples: list[Sample]) -> dict[int, Process]:
    """The processes that hold a GPU at the end of the second."""
    holds: dict[int, list[tuple[int, int | None]]] = {}
    for number, gpu in enumerate(samples[-1].gpus):
        for pid, used in dict(gpu.get("pids") or {}).items():
            if str(pid).isdigit():
                holds.setdefault(int(pid), []).append((number, used if isinstance(used, int) else None))
    found: dict[int, Process] = {}
    for pid, held in holds.items():
        raw = [one for sample in samples for one in sample.processes if one.get("pid") == pid]
        values, _ = _aggregate(_PROCESS_METRICS, raw, {})
        found[pid] = Process(values, held)
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


def _keep_counters(seconds: list[Second]) -> None:
    """A counter that goes back within the recording (a reset, a glitch) stays where it was: the rest would read as one."""
    for number in range(len(seconds[0].gpus) if seconds else 0):
        _rise([second.gpus[number] for second in seconds], COUNTERS["gpu"])
    _rise([second.host for second in seconds], COUNTERS["host"])
    for pid in {pid for second in seconds for pid in second.processes}:
        _rise([second.processes[pid].values for second in seconds if pid in second.processes], COUNTERS["process"])


def _rise(rows: list[list[Cell]], counters: frozenset[int]) -> None:
    for i in counters:
        highest: Cell = None
        for row in rows:
            value = row[i]
            if value is not None:
                highest = value if highest is None else max(highest, value)
                row[i] = highest
