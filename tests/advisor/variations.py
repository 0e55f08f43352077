"""Variations of a recording that must not change what is said of it."""

import random
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from advisor.frames import from_recording
from advisor.samples import Span, facts_of, judged
from wire.recording import Recording, Sample

_GAUGES = {
    "index", "mem_used_bytes", "mem_total_bytes", "clocks_event_reasons", "pids", "sm_clock_mhz", "mem_clock_mhz", "energy_j_total",
    "temperature_c", "pid", "threads", "children", "rss_bytes", "read_chars_total", "write_chars_total", "disk_read_bytes_total",
    "disk_write_bytes_total",
}  # fmt: skip
_RATIOS = ("_active", "_occupancy")


def means(recording: Recording, seconds: float) -> Recording:
    """One sample for each `seconds`: rates and activities are means, gauges and counters the last reading."""
    bins: dict[int, list[Sample]] = {}
    for sample in recording.samples:
        bins.setdefault(int(sample.t // seconds), []).append(sample)
    return replace(recording, samples=tuple(_mean(group) for group in bins.values()))


def _mean(group: list[Sample]) -> Sample:
    return Sample(
        t=group[-1].t,
        gpus=_merged([sample.gpus for sample in group], "index"),
        processes=_merged([sample.processes for sample in group], "pid"),
        host=_one([sample.host for sample in group]),
    )


def _merged(groups: list[tuple[dict[str, Any], ...]], key: str) -> tuple[dict[str, Any], ...]:
    rows: dict[int, list[dict[str, Any]]] = {}
    for group in groups:
        for row in group:
            rows.setdefault(row[key], []).append(row)
    present = {row[key] for row in groups[-1]}
    return tuple(_one(history) for number, history in rows.items() if number in present)


def _one(history: list[dict[str, Any]]) -> dict[str, Any]:
    last = dict(history[-1])
    for name, value in last.items():
        if name in _GAUGES or isinstance(value, dict):
            continue
        if isinstance(value, list):
            last[name] = [
                sum(column) / len(column) for column in zip(*(row[name] for row in history if name in row), strict=False)
            ]
        elif isinstance(value, int | float):
            known = [row[name] for row in history if isinstance(row.get(name), int | float)]
            last[name] = sum(known) / len(known)
    return last


def dropped(recording: Recording, share: float, seed: int = 1) -> Recording:
    """`share` of the samples are lost."""
    chance = random.Random(seed)
    return replace(recording, samples=tuple(sample for sample in recording.samples if chance.random() >= share))


def noisy(recording: Recording, sigma: float, seed: int = 1) -> Recording:
    """Every rate and activity is off by a factor of about 1 +- `sigma`; gauges and counters are exact."""
    chance = random.Random(seed)

    def shaken(row: dict[str, Any]) -> dict[str, Any]:
        out = dict(row)
        for name, value in row.items():
            if name in _GAUGES or isinstance(value, bool | dict | list) or not isinstance(value, int | float):
                continue
            value = value * max(0.0, chance.gauss(1, sigma))
            if name.endswith(_RATIOS):
                value = min(1.0, value)
            elif name in ("gpu_util_pct", "mem_copy_util_pct", "cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct"):
                value = min(100.0, value)
            out[name] = value
        return out

    return replace(
        recording,
        samples=tuple(
            replace(
                sample,
                gpus=tuple(shaken(row) for row in sample.gpus),
                processes=tuple(shaken(row) for row in sample.processes),
                host=shaken(sample.host),
            )
            for sample in recording.samples
        ),
    )


def shifted(recording: Recording, seconds: float) -> Recording:
    """The clock started `seconds` earlier."""
    return replace(recording, samples=tuple(replace(sample, t=sample.t + seconds) for sample in recording.samples))


def doubled(recording: Recording) -> Recording:
    """The steady part plays twice; gauges fall back at the seam, counters go on."""
    window = from_recording(recording)
    steady = judged(window, facts_of(window), Span(from_start=True)).samples.get_column("t").to_list()
    start, end = min(steady), max(steady)
    part = tuple(sample for sample in recording.samples if start <= sample.t <= end)
    head = tuple(sample for sample in recording.samples if sample.t < start)
    length = part[-1].t - part[0].t + (part[1].t - part[0].t)
    grown = {name: part[-1].host.get(name, 0) - part[0].host.get(name, 0) for name in part[0].host if name.endswith("_total")}
    again = []
    for sample in part:
        processes = tuple(_continued(row, part) for row in sample.processes)
        host = {name: value + grown.get(name, 0) if name in grown else value for name, value in sample.host.items()}
        again.append(replace(sample, t=sample.t + length, processes=processes, host=host))
    return replace(recording, samples=head + part + tuple(again))


def _continued(row: dict[str, Any], half: tuple[Sample, ...]) -> dict[str, Any]:
    history = [other for sample in half for other in sample.processes if other["pid"] == row["pid"]]
    out = dict(row)
    for name in ("read_chars_total", "write_chars_total"):
        if name in row:
            out[name] = row[name] + history[-1][name] - history[0][name]
    return out


def without_gpm(recording: Recording) -> Recording:
    """What NVML alone says: no activities, no traffic."""
    gone = ("_active", "_occupancy", "_bytes_per_s")
    return _each_gpu(recording, lambda row: {name: value for name, value in row.items() if not name.endswith(gone)})


def without_processes(recording: Recording) -> Recording:
    """Nothing is known of processes but who holds the GPU."""
    return replace(recording, samples=tuple(replace(sample, processes=()) for sample in recording.samples))


def without_header(recording: Recording) -> Recording:
    """A header that names the format and nothing else."""
    bare = replace(recording.header, gpus=(), host=type(recording.header.host)())
    return replace(recording, header=bare)


def _each_gpu(recording: Recording, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Recording:
    return replace(
        recording,
        samples=tuple(replace(sample, gpus=tuple(change(row) for row in sample.gpus)) for sample in recording.samples),
    )


def numbered_from(recording: Recording, first: int) -> Recording:
    """The driver's numbers of the GPUs start at `first`, as where a container has some of a node's GPUs."""
    header = replace(recording.header, gpus=tuple(replace(gpu, index=gpu.index + first) for gpu in recording.header.gpus))
    return _each_gpu(replace(recording, header=header), lambda row: {**row, "index": row["index"] + first})


def with_one_idle(recording: Recording, index: int, *, held: bool) -> Recording:
    """GPU `index` does nothing; a process holds its memory or nobody does."""
    nothing = {"gpu_util_pct": 0, "mem_copy_util_pct": 0, "power_w": 90.0, "mem_used_bytes": 20 * 10**9 if held else 6 * 10**8}

    def idle(row: dict[str, Any]) -> dict[str, Any]:
        if row["index"] != index:
            return row
        quiet = {name: 0.0 for name in row if name.endswith(("_active", "_occupancy", "_bytes_per_s"))}
        return {**row, **quiet, **nothing, "pids": row["pids"] if held else {}}

    return _each_gpu(recording, idle)


def on_more_gpus(recording: Recording, copies: int) -> Recording:
    """The same program on `copies` times the GPUs, each copy with processes of its own, on a host so much larger."""
    n = len(recording.header.gpus)
    header = replace(
        recording.header,
        gpus=tuple(replace(gpu, index=gpu.index + k * n) for k in range(copies) for gpu in recording.header.gpus),
        host=replace(recording.header.host, cores=(recording.header.host.cores or 0) * copies),
    )
    samples = []
    for sample in recording.samples:
        gpus = tuple(
            {
                **row,
                "index": row["index"] + k * n,
                "pids": {str(int(pid) + k * 1_000_000): b for pid, b in row.get("pids", {}).items()},
            }
            for k in range(copies)
            for row in sample.gpus
        )
        processes = tuple({**row, "pid": row["pid"] + k * 1_000_000} for k in range(copies) for row in sample.processes)
        host = dict(sample.host)
        host["cpu_pct_per_core"] = list(host.get("cpu_pct_per_core", [])) * copies
        for name in ("disk_read_bytes_total", "disk_write_bytes_total"):
            host[name] = host.get(name, 0) * copies
        samples.append(replace(sample, gpus=gpus, processes=processes, host=host))
    return replace(recording, header=header, samples=tuple(samples))
