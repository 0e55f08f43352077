"""Many recordings as one window, and changes made to all of them at once.

Every recording is a node and a job of its own, so that one pass of the advisor judges them all. Changes take a window and
return one; what they do to a reading is what another agent, node or card would have told of the same program.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from advisor.frames import CONSTANTS, FACTS, Window, from_recording
from advisor.samples import Span, facts_of, judged
from wire import recording

RECORDINGS: Final = Path(__file__).resolve().parents[2] / "recordings"
STRIDE: Final = 16
"""Keys of GPUs that a recording may use: its node's number times this and on."""
RATIOS: Final = (
    "gr_engine_active", "sm_active", "sm_occupancy", "int_active", "tensor_active", "dram_active", "fp64_active", "fp32_active",
    "fp16_active",
)  # fmt: skip
TRAFFIC: Final = ("pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s")
MEANS: Final = (*RATIOS, *TRAFFIC, "cpu_pct", "children_cpu_pct", "cpu_busy_cores", "cpu_core_max_pct", "cpu_iowait_pct")
"""What an agent tells as means over the time since the sample before; all else is read at the sample."""
COUNTERS: Final = (
    "read_chars_total", "write_chars_total", "disk_read_bytes_total", "disk_write_bytes_total", "net_rx_bytes_total",
    "net_tx_bytes_total", "energy_j_total",
)  # fmt: skip
WIND_DOWN_S: Final = 3.0
"""What a program does at its end (it stops its helpers, says farewell, lets go of memory) is not what it does all along."""
Change = Callable[[Window], Window]


def recorded(names: Sequence[str]) -> Window:
    """The recordings of those names, each a node and a job of its own."""
    return together({name: from_recording(recording.read(RECORDINGS / f"{name}.jsonl.gz")) for name in names})


def together(windows: Mapping[str, Window]) -> Window:
    """One window of many, each with one node; its job has the key as its name."""
    parts = []
    for node, (name, window) in enumerate(windows.items()):
        gpus = {gpu: node * STRIDE + number for number, gpu in enumerate(window.facts["gpu"].to_list())}
        renumbered = pl.col("gpu").replace_strict(gpus, return_dtype=pl.Int64)
        parts.append(
            Window(
                gpu=window.gpu.with_columns(renumbered),
                host=window.host.with_columns(node=pl.lit(node, pl.Int64)),
                process=window.process.with_columns(renumbered),
                facts=window.facts.with_columns(renumbered, node=pl.lit(node, pl.Int64), job=pl.lit(name)),
            )
        )
    return Window(
        gpu=pl.concat(part.gpu for part in parts),
        host=pl.concat(part.host for part in parts),
        process=pl.concat(part.process for part in parts),
        facts=pl.concat(part.facts for part in parts),
    )


def changed(window: Window, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Window:
    """`change` made to the readings of GPUs, hosts and processes."""
    return replace(window, gpu=change(window.gpu), host=change(window.host), process=change(window.process))


def keys_of(frame: pl.DataFrame) -> list[str]:
    """By what one series of the frame is told from another."""
    return [name for name in ("node", "gpu", "pid") if name in frame.columns]


def of_node(frame: pl.DataFrame) -> pl.Expr:
    """The node of each row."""
    return pl.col("node") if "node" in frame.columns else pl.col("gpu") // STRIDE


def steady(window: Window) -> Window:
    """What is judged of each recording, its time from 0, less the wind-down of the process: see WIND_DOWN_S."""
    samples = judged(window, facts_of(window), Span(from_start=True)).samples
    spans = samples.group_by(node=pl.col("gpu") // STRIDE).agg(start_t=pl.col("t").min(), end_t=pl.col("t").max() - WIND_DOWN_S)

    def cut(frame: pl.DataFrame) -> pl.DataFrame:
        at = frame.select(node=of_node(frame)).join(spans, on="node", how="left", maintain_order="left")
        told = frame.with_columns(at.select("start_t", "end_t"))
        return (
            told.filter(pl.col("t").is_between("start_t", "end_t"))
            .with_columns(pl.col("t") - pl.col("start_t"))
            .drop("start_t", "end_t")
        )

    return changed(window, cut)


def lasting(window: Window, seconds: float) -> Window:
    """The window's readings over and over for `seconds`: counters go on from where they were."""

    def looped(frame: pl.DataFrame) -> pl.DataFrame:
        of = of_node(frame)
        period = (pl.col("t").max() + 0.25).over(of)
        keys = keys_of(frame)
        counters = [name for name in COUNTERS if name in frame.columns]
        rounds = frame.with_columns(
            _period=period, **{f"_{name}": (pl.col(name).max() - pl.col(name).min()).over(keys) for name in counters}
        ).join(pl.DataFrame({"_round": range(int(seconds / 10) + 1)}), how="cross")
        again = pl.col("_round")
        return (
            rounds.with_columns(
                pl.col("t") + again * pl.col("_period"), *[pl.col(name) + again * pl.col(f"_{name}") for name in counters]
            )
            .filter(pl.col("t") <= seconds)
            .select(frame.columns)
            .sort(*keys, "t")
        )

    return changed(window, looped)


def every(window: Window, seconds: float, phase: float = 0.0) -> Window:
    """As an agent tells that samples each `seconds`: means over them, gauges and counters as they are at their end."""

    def thinned(frame: pl.DataFrame) -> pl.DataFrame:
        keys = keys_of(frame)
        means = [name for name in MEANS if name in frame.columns]
        at = ((pl.col("t") - phase) / seconds).ceil().alias("_tick")
        told = frame.group_by(*keys, at, maintain_order=True).agg(pl.col(means).mean(), pl.exclude(*keys, *means, "_tick").last())
        return told.select(frame.columns).sort(*keys, "t")

    return changed(window, thinned)


def twice_as_often(window: Window) -> Window:
    """As an agent tells that samples at twice the rate: what was a mean holds for both halves."""

    def halved(frame: pl.DataFrame) -> pl.DataFrame:
        keys = keys_of(frame)
        counters = [name for name in COUNTERS if name in frame.columns]
        half = (pl.col("t") - pl.col("t").shift(1).over(keys)) / 2
        between = frame.with_columns(
            pl.col("t") - half, *[(pl.col(name) + pl.col(name).shift(1).over(keys)) / 2 for name in counters]
        ).filter(pl.col("t").is_not_null())
        return pl.concat([frame, between]).sort(*keys, "t")

    return changed(window, halved)


def at_unsteady_times(window: Window, share: float = 0.4, seed: int = 1) -> Window:
    """Each sample comes up to `share` of a period early or late; all of a node at once."""
    chance = np.random.default_rng(seed)
    ticks = window.host.select("node", "t").unique(maintain_order=True)
    period = float(np.median(np.diff(window.host["t"].to_numpy())))
    off = ticks.with_columns(_off=pl.Series(chance.uniform(-share / 2, share / 2, ticks.height) * period))

    def shaken(frame: pl.DataFrame) -> pl.DataFrame:
        at = frame.select("t", node=of_node(frame)).join(off, on=("node", "t"), how="left", maintain_order="left")
        return frame.with_columns(pl.col("t") + at["_off"])

    return changed(window, shaken)


def less(window: Window, share: float, burst_s: float = 0.0, seed: int = 1) -> Window:
    """`share` of the samples of each node are lost, all of its GPUs' at once, one by one or `burst_s` seconds in a row."""
    chance = np.random.default_rng(seed)
    ticks = window.host.select("node", "t").unique(maintain_order=True)
    ticks = ticks.with_columns(_block=(pl.col("t") / burst_s).floor() if burst_s else pl.col("t"))
    blocks = ticks.select("node", "_block").unique(maintain_order=True)
    blocks = blocks.with_columns(_drawn=pl.Series(chance.random(blocks.height)))
    lost = pl.col("_drawn").rank("ordinal").over("node") <= (share * pl.len().over("node")).round()
    ticks = ticks.join(blocks.with_columns(_kept=~lost), on=("node", "_block"), how="left")

    def thinned(frame: pl.DataFrame) -> pl.DataFrame:
        at = frame.select("t", node=of_node(frame)).join(ticks, on=("node", "t"), how="left", maintain_order="left")
        return frame.filter(at["_kept"])

    return changed(window, thinned)


def noisy(window: Window, sigma: float, seed: int = 1) -> Window:
    """Every activity, rate, load and power is off by a factor of about 1 +- `sigma`, within what is possible; counters are exact."""
    chance = np.random.default_rng(seed)
    tops = dict.fromkeys(RATIOS, 1.0) | {"gpu_util_pct": 100.0, "mem_copy_util_pct": 100.0, "cpu_iowait_pct": 100.0}
    shaken = (*MEANS, "gpu_util_pct", "mem_copy_util_pct", "power_w")

    def off(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.with_columns(
            (pl.col(name) * pl.Series(chance.normal(1, sigma, frame.height))).clip(0, tops.get(name))
            for name in shaken
            if name in frame.columns
        )

    return changed(window, off)


def without_profiling(window: Window) -> Window:
    """What NVML alone tells: no activities, no traffic."""
    return replace(window, gpu=window.gpu.with_columns(pl.lit(None, pl.Float64).alias(name) for name in (*RATIOS, *TRAFFIC)))


def copies(window: Window, count: int) -> Window:
    """Each recording `count` times, as nodes and jobs of their own: `name#0`, `name#1` and on."""
    nodes = window.facts["node"].max() + 1  # type: ignore[operator]
    number = pl.DataFrame({"_copy": range(count)})

    def many(frame: pl.DataFrame) -> pl.DataFrame:
        moved = frame.join(number, how="cross")
        if "node" in frame.columns:
            moved = moved.with_columns(pl.col("node") + pl.col("_copy") * nodes)
        if "gpu" in frame.columns:
            moved = moved.with_columns(pl.col("gpu") + pl.col("_copy") * nodes * STRIDE)
        if "job" in frame.columns:
            moved = moved.with_columns(pl.col("job") + "#" + pl.col("_copy").cast(pl.String))
        return moved.drop("_copy").sort(*keys_of(frame), *(["t"] if "t" in frame.columns else []))

    return replace(changed(window, many), facts=many(window.facts))


def seen_in_part(window: Window) -> Window:
    """One GPU of each job; of the others nobody tells."""
    one = pl.col("gpu") % STRIDE == 0
    return replace(window, gpu=window.gpu.filter(one), process=window.process.filter(one), facts=window.facts.filter(one))


def of_unknown_card(window: Window) -> Window:
    """A card that tells neither its name nor any constant."""
    nothing = [
        pl.lit(None, kind).alias(name) for name, kind in FACTS.items() if name in (*CONSTANTS, "name", "compute_capability")
    ]
    return replace(window, facts=window.facts.with_columns(nothing))
