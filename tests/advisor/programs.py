"""Invented programs: what the counters of an H200 node would show, from the physics of each.

`record(...)` makes a recording of a program that starts, works and ends. Readings are numbers or functions of the seconds since
the work began; activities get a little jitter, counters grow from their rates.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from wire.recording import Header, RecordedGpu, RecordedHost, Recording, Sample

Reading: TypeAlias = float | Callable[[float], float]

GPU: Final[dict[str, Reading]] = {
    "gr_engine_active": 0.0, "sm_active": 0.0, "sm_occupancy": 0.0, "int_active": 0.0, "tensor_active": 0.0, "dram_active": 0.0,
    "fp64_active": 0.0, "fp32_active": 0.0, "fp16_active": 0.0, "pcie_tx_bytes_per_s": 2e6, "pcie_rx_bytes_per_s": 2e6,
    "nvlink_tx_bytes_per_s": 0.0, "nvlink_rx_bytes_per_s": 0.0, "sm_clock_mhz": 1980.0, "mem_clock_mhz": 3201.0,
    "clocks_event_reasons": 0, "temperature_c": 45.0, "mem_used_bytes": 20e9, "power_w": 300.0,
}  # fmt: skip
_EXACT: Final = {"clocks_event_reasons", "mem_used_bytes", "sm_clock_mhz", "mem_clock_mhz"}


@dataclass(frozen=True)
class Process:
    """A process that holds GPUs. Rates are bytes a second."""

    cpu_pct: Reading = 100.0
    children: Reading = 0
    children_cpu_pct: Reading = 0.0
    reads: Reading = 0.0
    writes: Reading = 0.0
    gpus: tuple[int, ...] = (0,)
    gpu_bytes: float = 19e9


@dataclass(frozen=True)
class Host:
    """The node. Rates are bytes a second."""

    cores: int = 32
    busy_cores: Reading = 2.0
    iowait_pct: Reading = 0.0
    disk_reads: Reading = 0.0
    disk_writes: Reading = 0.0
    net: Reading = 0.0
    mem_used_bytes: Reading = 20e9


@dataclass(frozen=True)
class Program:
    """One invented program."""

    gpus: Sequence[Mapping[str, Reading]]
    processes: Sequence[Process] = field(default_factory=lambda: (Process(),))
    host: Host = Host()
    card: Mapping[str, Any] = field(default_factory=dict)


def wave(period: float, on: float, high: float, low: float = 0.0001) -> Callable[[float], float]:
    """`high` for the first `on` seconds of each `period`, else `low`."""
    return lambda t: high if t % period < on else low


def record(program: Program, seconds: float = 40.0, hz: float = 4.0, startup: float = 6.0, seed: int = 1) -> Recording:
    """`program` as a recording: `startup` seconds of imports with memory taken half way, then the work, then the end."""
    chance = random.Random(seed)
    step = 1 / hz
    fine = 8
    totals = {"reads": [0.0] * len(program.processes), "writes": [0.0] * len(program.processes)}
    disk = {"disk_read_bytes_total": 1e9, "disk_write_bytes_total": 1e9, "net_rx_bytes_total": 0.0, "net_tx_bytes_total": 0.0}

    def mean(reading: Reading, t: float) -> float:
        """The mean over the sample that ends `t` seconds into the work."""
        if not callable(reading):
            return float(reading)
        return sum(reading(max(0.0, t - step + (k + 0.5) * step / fine)) for k in range(fine)) / fine

    samples = []
    for number in range(int((startup + seconds) * hz) + 1):
        now = number * step
        t = now - startup
        works, held = t > 0, now >= startup / 2
        rows = []
        for index, readings in enumerate(program.gpus):
            row: dict[str, Any] = {"index": index, "mem_total_bytes": 150754820096, "power_limit_w": 700}
            for name, reading in (GPU | dict(readings)).items():
                value = (
                    mean(reading, t)
                    if works
                    else (0.0 if name not in _EXACT and name != "temperature_c" else mean(GPU[name], 0.0))
                )
                if name == "mem_used_bytes" and not works:
                    value = 1.2e9 if held else 0.65e9
                if name not in _EXACT:
                    value *= 1 + chance.uniform(-0.04, 0.04)
                if name.endswith(("_active", "_occupancy")):
                    value = min(1.0, value)
                row[name] = int(value) if name in _EXACT else value
            if "gpu_util_pct" not in readings:
                row["gpu_util_pct"] = min(100, round(100 * row["gr_engine_active"]))
                row["mem_copy_util_pct"] = min(100, round(128 * row["dram_active"]))
            row["pids"] = (
                {str(900 + k): int(p.gpu_bytes) for k, p in enumerate(program.processes) if index in p.gpus} if held else {}
            )
            rows.append({name: value for name, value in row.items() if value is not None})
        processes = []
        for k, process in enumerate(program.processes):
            if works:
                totals["reads"][k] += mean(process.reads, t) * step
                totals["writes"][k] += mean(process.writes, t) * step
            if held:
                processes.append(
                    {
                        "pid": 900 + k,
                        "cpu_pct": mean(process.cpu_pct, t) * (1 + chance.uniform(-0.03, 0.03)) if works else 100.0,
                        "threads": 34,
                        "children": round(mean(process.children, t)) if works else 0,
                        "children_cpu_pct": mean(process.children_cpu_pct, t) if works else 0.0,
                        "rss_bytes": 2_000_000_000,
                        "read_chars_total": int(21e6 + totals["reads"][k]),
                        "write_chars_total": int(totals["writes"][k]),
                    }
                )
        host = program.host
        if works:
            for name, rate in (
                ("disk_read_bytes_total", host.disk_reads), ("disk_write_bytes_total", host.disk_writes),
                ("net_rx_bytes_total", host.net), ("net_tx_bytes_total", host.net),
            ):  # fmt: skip
                disk[name] += mean(rate, t) * step
        busy = mean(host.busy_cores, t) if works else 1.0
        samples.append(
            Sample(
                t=now,
                gpus=tuple(rows),
                processes=tuple(processes),
                host={
                    "cpu_pct_per_core": [100 * busy / host.cores] * host.cores,
                    "cpu_iowait_pct": mean(host.iowait_pct, t) if works else 0.0,
                    "mem_used_bytes": int(mean(host.mem_used_bytes, t)),
                    **{name: int(value) for name, value in disk.items()},
                },
            )
        )
    card: dict[str, Any] = {
        "name": "NVIDIA H200", "compute_capability": "9.0", "mem_total_bytes": 150754820096, "power_limit_w": 700,
        "power_limit_default_w": 700, "sm_clock_max_mhz": 1980, "mem_clock_max_mhz": 3201, "pcie_link_gen_max": 5,
        "pcie_link_width_max": 16, "nvlink_links": 18, "nvlink_bytes_per_s_per_link": 26562000000, **program.card,
    }  # fmt: skip
    header = Header(
        recording=1,
        sampling_hz=hz,
        gpus=tuple(RecordedGpu(index=index, **card) for index in range(len(program.gpus))),
        host=RecordedHost(cores=program.host.cores, mem_total_bytes=274877906944),
    )
    return Recording(name="invented", header=header, samples=tuple(samples))
