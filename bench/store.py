"""What the Parquet store costs: CPU for each step, bytes a sample, milliseconds a read.

`python bench/store.py --gpus N --seconds S` writes S seconds of N GPUs in groups of ten seconds, merges as the compactor
would (time is simulated, nothing waits), reads in the three states that readers meet, and settles the hour. A sample is
one row of METRICS, the 30 metrics named here. Values are the recordings' own, each GPU with its own offset, level and
noise, so that no two are the same and nothing repeats. Human lines first, one JSON object last. `--beside` writes the same samples to
Debian's VictoriaMetrics and Prometheus too, and asks all three the same four questions (bench/store_beside.py).
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

from fleet.store import rollup
from fleet.store.compact import compact
from fleet.store.layout import ROLLED, File, day_of
from fleet.store.parquet import ParquetSeries, encode
from wire import recording

METRICS = (
    "gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes", "mem_total_bytes", "temperature_c", "memory_temperature_c",
    "power_w", "power_limit_w", "energy_j_total", "sm_clock_mhz", "mem_clock_mhz", "pstate", "clocks_event_reasons",
    "gr_engine_active", "sm_active", "sm_occupancy", "int_active", "tensor_active", "tensor_hmma_active", "dram_active",
    "fp64_active", "fp32_active", "fp16_active", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s", "ecc_corrected_volatile_total", "ecc_uncorrected_volatile_total", "xid_errors_total",
)  # fmt: skip
CONSTANT = {"power_limit_w": 700.0, "pstate": 0.0}
FLUSH_S = 10
START = 1_767_268_800  # 2026-01-01 12:00 UTC: nothing crosses an hour in the default run
Array = npt.NDArray[np.float64]


class Fleet:
    """GPUs that each play a recording at 1 Hz from their own offset, at their own level, with their own noise."""

    def __init__(self, gpus: int) -> None:
        self.random = np.random.default_rng(1)
        plays = [_play(path, gpu) for path in sorted((ROOT / "recordings").glob("*.jsonl.gz")) for gpu in range(_cards(path))]
        self.play = [plays[(gpu // 8) % len(plays)] for gpu in range(gpus)]
        self.offset = self.random.integers(0, 1 << 20, gpus)
        self.level = self.random.uniform(0.95, 1.05, gpus)
        self.energy = self.random.uniform(1e6, 1e8, gpus)
        self.gpus = gpus

    def group(self, first: int, seconds: int) -> pl.DataFrame:
        """The fleet's rows of some seconds, in the order in which they arrive: by second, then by GPU."""
        block: Array = np.empty((seconds, self.gpus, len(METRICS)))
        for gpu, play in enumerate(self.play):
            block[:, gpu] = play[(self.offset[gpu] + first + np.arange(seconds)) % len(play)]
        noise = 1 + self.random.normal(0, 0.01, block.shape)
        for m, name in enumerate(METRICS):
            column = block[:, :, m]
            if name.endswith("_active") or name == "sm_occupancy":
                block[:, :, m] = np.clip(column * self.level * noise[:, :, m], 0, 1)
            elif name.endswith("_per_s") or name == "power_w":
                block[:, :, m] = column * self.level * noise[:, :, m]
            elif name in ("temperature_c", "memory_temperature_c", "gpu_util_pct", "mem_copy_util_pct"):
                block[:, :, m] = np.clip(np.round(column * self.level * noise[:, :, m]), 0, 100)
        watts = block[:, :, METRICS.index("power_w")]
        block[:, :, METRICS.index("energy_j_total")] = np.round(self.energy + np.cumsum(watts, axis=0), 3)
        self.energy = block[-1, :, METRICS.index("energy_j_total")]
        flat = block.reshape(-1, len(METRICS))
        keys = {
            "entity": np.tile(np.arange(1, self.gpus + 1), seconds),
            "ts": np.repeat(START + first + np.arange(seconds), self.gpus),
        }
        return pl.DataFrame(keys | {name: flat[:, m] for m, name in enumerate(METRICS)}).with_columns(pl.all().fill_nan(None))


def _cards(path: Path) -> int:
    return len(recording.read(path).header.gpus)


def _play(path: Path, gpu: int) -> Array:
    """One GPU of a recording at 1 Hz, (second, metric); what it lacks is a constant or NaN."""
    samples = [sample.gpus[gpu] for sample in recording.read(path).samples[::4] if len(sample.gpus) > gpu]
    rows = []
    for sample in samples[len(samples) // 3 :]:
        values, _ = recording.readings("gpu", sample)
        rows.append([values.get(name, CONSTANT.get(name, 0.0 if name.endswith("_total") else np.nan)) for name in METRICS])
    play = np.array(rows, dtype=np.float64)
    play[:, METRICS.index("memory_temperature_c")] = play[:, METRICS.index("temperature_c")] + 6
    return play


class Meter:
    """CPU seconds and wall seconds of named steps."""

    def __init__(self) -> None:
        self.cpu: dict[str, float] = {}
        self.walls: dict[str, list[float]] = {}

    def run(self, name: str, call: Callable[[], object]) -> None:
        """Call it and add what it took."""
        cpu, wall = time.process_time(), time.perf_counter()
        call()
        self.cpu[name] = self.cpu.get(name, 0) + time.process_time() - cpu
        self.walls.setdefault(name, []).append(time.perf_counter() - wall)


def main() -> None:
    """Run the steps and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument(
        "--beside", action="store_true", help="beside Debian's VictoriaMetrics and Prometheus, on the same samples"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("FETTLE_DATA")) as path:
        if options.beside:
            compare(Path(path), options.gpus, options.seconds, options.repeats)
            return
        run(Path(path), options.gpus, options.seconds, options.repeats)


def compare(path: Path, gpus: int, seconds: int, repeats: int) -> None:
    """The same samples in every engine."""
    import django

    os.environ["FETTLE_DEBUG"] = "1"  # no server's secret is needed
    django.setup()
    from bench.store_beside import beside

    fleet = Fleet(gpus)
    groups = (fleet.group(first, FLUSH_S) for first in range(0, seconds, FLUSH_S))
    told = beside(path, groups, gpus, gpus * seconds, repeats, START + seconds)
    print(json.dumps({"gpus": gpus, "seconds": seconds, "samples": gpus * seconds, "metrics": len(METRICS), "engines": told}))


def run(path: Path, gpus: int, seconds: int, repeats: int) -> None:
    """Write, merge, read."""
    now = [float(START)]
    store = ParquetSeries(path, clock=lambda: now[0], grace_s=0)
    fleet, meter = Fleet(gpus), Meter()
    samples = gpus * seconds
    million = samples / 1e6

    def size(level: str, folder: str = "raw") -> int:
        return sum(file.stat().st_size for file in (path / folder).rglob(f"{level}-*.parquet"))

    def reads(state: str) -> dict[str, float]:
        end = int(now[0])
        queries: dict[str, Callable[[], object]] = {
            "one_gpu_hour": lambda: store.series(
                "gpu", gpus // 2, ["sm_active", "power_w", "energy_j_total"], end - 3600, end, 10
            ),
            "fleet_60s": lambda: store.window("gpu", end - 60, end),
            "fleet_300s": lambda: store.window("gpu", end - 300, end),
            "fleet_300s_10_metrics": lambda: store.window("gpu", end - 300, end, metrics=METRICS[13:23]),
            "latest": lambda: store.latest("gpu", end - 30),
        }
        told = {}
        for name, query in queries.items():
            key = f"{name}, {state}"
            for _ in range(repeats):
                meter.run(key, query)
            told[name] = statistics.median(meter.walls[key]) * 1000
            print(f"{key:48} {told[name]:8.1f} ms")
        return told

    bytes_a = 0
    for first in range(0, seconds, FLUSH_S):
        frame = fleet.group(first, FLUSH_S)
        now[0] = START + first + FLUSH_S - 1
        meter.run("write", partial(store.write, "gpu", frame))
        if first + FLUSH_S == min(300, seconds):  # the state that readers meet just before a merge
            bytes_a = size("a")
            flushed = reads("30 flush files")
        now[0] += 1
        if now[0] % 300 == 0 and first + FLUSH_S < seconds:
            meter.run("merge to 5 min", lambda: compact(store, now[0]))
    fresh = reads("5 min merged + 5 min of flushes")
    meter.run("merge to 5 min", lambda: compact(store, START + -(-seconds // 300) * 300))
    bytes_b = size("b")
    meter.run("merge to 1 h", lambda: compact(store, now[0] + 7200))
    bytes_c = size("d")
    compact(store, now[0] + 7200)
    settled = reads("settled hour")
    rollups = {of.name: round(size("a", of.name) / samples, 2) for of in ROLLED}
    long = long_reads(path / "long", fleet, repeats)

    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    bytes_per_sample = {
        "flush": round(bytes_a / (gpus * min(300, seconds)), 1),
        "5 min": round(bytes_b / samples, 1),
        "1 h": round(bytes_c / samples, 1),
    }
    result = {
        "gpus": gpus,
        "seconds": seconds,
        "samples": samples,
        "metrics": len(METRICS),
        "cpu_s_per_million": {step: round(meter.cpu[step] / million, 2) for step in ("write", "merge to 5 min", "merge to 1 h")},
        "write_ms_p50": round(statistics.median(meter.walls["write"]) * 1000, 1),
        "write_ms_max": round(max(meter.walls["write"]) * 1000, 1),
        "bytes_per_sample": bytes_per_sample,
        "rollup_bytes_per_sample": rollups,
        "long_read_ms": long,
        "read_ms": {
            state: {name: round(value, 1) for name, value in told.items()}
            for state, told in (("flushed", flushed), ("fresh", fresh), ("settled", settled))
        },
        "rss_bytes": rss,
    }
    for step, cost in meter.cpu.items():
        if "," not in step:
            print(f"{step:48} {cost / million:8.2f} CPU-s per million samples")
    for level, length in bytes_per_sample.items():
        print(f"bytes a sample, {level:32} {length:8.1f}")
    for name, length in rollups.items():
        print(f"bytes a sample, roll-ups of {name:22} {length:8.2f}")
    print(json.dumps(result))


def long_reads(path: Path, fleet: Fleet, repeats: int) -> dict[str, float]:
    """Milliseconds to read one GPU over weeks to two years, from the roll-ups of one shard of 125 GPUs.

    One simulated hour's roll-ups stand for every hour: what a read costs depends on the files that it opens.
    """
    now = float(START + 3600)
    store = ParquetSeries(path, clock=lambda: now, grace_s=0)
    table = store.tables["gpu"]
    shard = fleet.group(0, 60).filter(pl.col("entity") <= 125)
    rows, _ = table.pack(shard)
    for of, span in ((ROLLED[1], 90 * 86_400), (ROLLED[2], 730 * 86_400)):
        rolled = store.rolled["gpu"][of]
        first = rolled.store(rollup.roll(table, rows, [name for name in METRICS if name in rows.columns], of.step_s))
        for start in range(START // of.part_s * of.part_s, START - span, -of.part_s):
            steps = pl.DataFrame({"ts": range(start, start + of.part_s, of.step_s)}, schema={"ts": pl.UInt32})
            part = first.drop("ts").join(steps, how="cross").select(first.columns).sort("entity", "ts")
            low, high = start, start + of.part_s - of.step_s + 1
            file = File("c", low, high, 1, 1, 0, 1, 1, 125)
            folder = store.folder("gpu", of) / day_of(start, of)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / file.name).write_bytes(encode(part, 7200))
    told, meter = {}, Meter()
    for name, days_, step_s in (("30 days by the hour", 30, 3600), ("7 days by ten minutes", 7, 600), ("90 days by the hour", 90, 3600),
                                ("2 years by 6 hours", 730, 21_600), ("2 years by the day", 730, 86_400)):  # fmt: skip
        query = partial(
            store.series, "gpu", 60, ["sm_active", "power_w", "energy_j_total"], START - days_ * 86_400, START, step_s
        )
        for _ in range(repeats):
            meter.run(name, query)
        told[name] = round(statistics.median(meter.walls[name]) * 1000, 1)
        print(f"one GPU, {name:39} {told[name]:8.1f} ms")
    return told


if __name__ == "__main__":
    main()
