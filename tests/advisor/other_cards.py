"""The recorded programs on another card: what its counters would show, and which label follows, from the roofline.

A program's operations and bytes are its own; the peaks are the card's. An engine second on the H200 in which a unit worked for the
share `a` of the time needs `a * r` seconds of that unit on a card whose peak is `1 / r` of the H200's. The unit that needs most
sets the pace; what no unit explains (latency, dependencies) takes as long as before. Time in which the engine waited for the host
takes as long as before too. So a slower card works for a larger share of the time, and one with a higher ridge point (peak
operations for each byte) turns programs that computed into programs that wait for memory.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from advisor.bottleneck import CAUSES
from advisor.frames import Window
from advisor.planners import cards
from tests.advisor.windows import RATIOS, STRIDE, TRAFFIC

H200: Final = cards.named("H200 SXM")
PIPES: Final = {
    "tensor_active": "bf16",
    "fp32_active": "fp32",
    "fp16_active": "fp32",
    "fp64_active": "fp32",
    "int_active": "fp32",
}
"""By which published peak each math pipe is scaled: the plain pipes of a card grow together."""
OTHERS: Final = {
    **{name: cards.named(name) for name in ("H100 SXM", "A100 SXM 80GB", "L4", "B200 SXM")},
    "half the bandwidth": dataclasses.replace(H200, memory_bytes_per_s=2.4e12),
    "a third of the tensor peak": dataclasses.replace(H200, dense_flop_per_s={**H200.dense_flop_per_s, "bf16": 989e12 / 3}),
}
MULTIPROCESSORS: Final = {"H200 SXM": 132, "H100 SXM": 132, "A100 SXM 80GB": 108, "L4": 58, "B200 SXM": 148}
CLOCKS_MHZ: Final = {"H200 SXM": 1980.0, "H100 SXM": 1980.0, "A100 SXM 80GB": 1410.0, "L4": 2040.0, "B200 SXM": 1965.0}
GENERATIONS: Final = {"H200 SXM": 5.0, "H100 SXM": 5.0, "A100 SXM 80GB": 4.0, "L4": 4.0, "B200 SXM": 5.0}


@dataclass(frozen=True)
class Ratios:
    """How much longer each unit of a card takes for the same work than the H200's."""

    math: dict[str, float]
    memory: float
    nvlink: float | None
    multiprocessors: float


def ratios(card: cards.Card) -> Ratios:
    """From the published peaks alone."""
    return Ratios(
        math={pipe: H200.dense_flop_per_s[dtype] / card.dense_flop_per_s[dtype] for pipe, dtype in PIPES.items()},
        memory=H200.memory_bytes_per_s / card.memory_bytes_per_s,  # type: ignore[operator]
        nvlink=H200.nvlink_bytes_per_s / card.nvlink_bytes_per_s if card.nvlink_bytes_per_s else None,  # type: ignore[operator]
        multiprocessors=MULTIPROCESSORS["H200 SXM"] / MULTIPROCESSORS[card.name],
    )


def on_card(window: Window, card: cards.Card, paced: frozenset[str]) -> Window:
    """The steady programs of `window` on that card, sampled as often as before.

    Of the jobs named in `paced` the host works on while the GPU does (it launches, it prepares batches): it waits for the slower of
    both. The others wait for one and then for the other.
    """
    ratio = ratios(card)
    jobs = dict(window.facts.select("gpu", "job").iter_rows())
    parts: list[pl.DataFrame] = []
    spans: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for (gpu,), one in window.gpu.group_by("gpu", maintain_order=True):
        moved, clock = _on_card(one, ratio, overlaps=jobs[gpu] in paced)
        parts.append(moved)
        spans.setdefault(int(gpu) // STRIDE, clock)
    node = pl.col("gpu") // STRIDE
    lanes = pl.lit(GENERATIONS[card.name], pl.Float64)
    facts = window.facts.with_columns(
        name=pl.lit(card.driver_name or card.name), compute_capability=pl.lit(card.compute_capability),
        mem_total_bytes=pl.lit(card.memory_bytes, pl.Float64), power_limit_w=pl.lit(card.tdp_w, pl.Float64),
        power_limit_default_w=pl.lit(card.tdp_w, pl.Float64), sm_clock_max_mhz=pl.lit(CLOCKS_MHZ[card.name]),
        pcie_link_gen_max=lanes, nvlink_links=pl.lit(0.0 if ratio.nvlink is None else 18.0),
        nvlink_bytes_per_s_per_link=pl.lit((card.nvlink_bytes_per_s or 0.0) / 18 or None, pl.Float64),
    )  # fmt: skip
    power = float(card.tdp_w or 0) / float(H200.tdp_w or 1)
    return dataclasses.replace(
        window,
        gpu=pl.concat(parts).with_columns(
            pl.col("power_w") * power, pl.col("sm_clock_mhz") * CLOCKS_MHZ[card.name] / 1980.0,
            pl.col("mem_used_bytes") * card.memory_bytes / 150754820096.0, power_limit_w=pl.lit(card.tdp_w, pl.Float64),
        ),
        host=_stretched(window.host, spans, pl.col("node")),
        process=_stretched(window.process, spans, node),
        facts=facts,
    )  # fmt: skip


def idle_share(busy: float, works: float) -> float:
    """Of the time in which an engine waited for a host that works on meanwhile, what is left where its work takes `works`, not `busy`."""
    return max(0.0, 1 - works) / max(1 - busy, 1e-9)


def _pace(one: dict[str, np.ndarray], ratio: Ratios) -> np.ndarray:
    """How many seconds an engine second of each sample takes on the other card."""
    busy = np.maximum(one["gr_engine_active"], 1e-6)
    link = 26562000000.0 * 18
    traffic = np.maximum(one["nvlink_tx_bytes_per_s"], one["nvlink_rx_bytes_per_s"]) / link
    nvlink = link / 31.5e9 if ratio.nvlink is None else ratio.nvlink
    units = [*((one[pipe], r) for pipe, r in ratio.math.items()), (one["dram_active"], ratio.memory), (traffic, nvlink)]
    before = np.minimum(1, np.max([values / busy for values, _ in units], axis=0))
    after = np.max([values / busy * r for values, r in units], axis=0)
    pace: np.ndarray = after + 1 - before
    return pace


def _on_card(gpu: pl.DataFrame, ratio: Ratios, *, overlaps: bool) -> tuple[pl.DataFrame, tuple[np.ndarray, np.ndarray]]:
    """The samples of one GPU; and when on the old clock and when on the new one each of them ended."""
    one = {name: gpu[name].fill_null(0).to_numpy() for name in (*RATIOS, *TRAFFIC)}
    old = gpu["t"].to_numpy()
    step = np.diff(old, prepend=old[0] - 0.25)
    busy = one["gr_engine_active"]
    pace = _pace(one, ratio)
    waits = idle_share(float(busy.mean()), float((busy * pace).mean())) if overlaps else 1.0
    length = step * ((1 - busy) * waits + busy * pace)
    new = old[0] - 0.25 + np.cumsum(length)
    work: dict[str, np.ndarray] = {"gr_engine_active": busy * pace * step}
    for pipe, r in ratio.math.items():
        work[pipe] = one[pipe] * r * step
    work["dram_active"] = one["dram_active"] * ratio.memory * step
    share = one["sm_active"] / np.maximum(busy, 1e-6)
    fewer = np.minimum(np.maximum(share, 0.95), share * ratio.multiprocessors)
    work["sm_active"] = fewer * work["gr_engine_active"]
    work["sm_occupancy"] = one["sm_occupancy"] / np.maximum(one["sm_active"], 1e-6) * work["sm_active"]
    for name in TRAFFIC:
        work[name] = one[name] * step
    if ratio.nvlink is None:
        for way in ("tx", "rx"):
            work[f"pcie_{way}_bytes_per_s"] = work[f"pcie_{way}_bytes_per_s"] + work[f"nvlink_{way}_bytes_per_s"]
            work[f"nvlink_{way}_bytes_per_s"] = np.zeros_like(step)
    ticks = np.arange(old[0], new[-1] + 1e-9, 0.25)
    made = {}
    for name, done in work.items():
        total = np.concatenate(([0.0], np.cumsum(done)))
        at = np.interp(np.concatenate(([ticks[0] - 0.25], ticks)), np.concatenate(([new[0] - length[0]], new)), total)
        made[name] = np.clip(np.diff(at) / 0.25, 0, 1 if name in RATIOS else None)
    made["gpu_util_pct"] = made["gr_engine_active"] * 100
    made["mem_copy_util_pct"] = np.minimum(100, made["dram_active"] * 128)
    last = np.minimum(np.searchsorted(new, ticks), gpu.height - 1)
    return gpu[last].with_columns(t=pl.Series(ticks), **{n: pl.Series(v) for n, v in made.items()}), (old, new)


def _stretched(frame: pl.DataFrame, spans: dict[int, tuple[np.ndarray, np.ndarray]], node: pl.Expr) -> pl.DataFrame:
    """Readings of a node at the new times: loads as they are, counters grown as far as they were at the same point of the work."""
    parts: list[pl.DataFrame] = []
    keys = [name for name in ("node", "gpu", "pid") if name in frame.columns]
    for (number, *_), one in frame.group_by(node.alias("_node"), *keys, maintain_order=True):
        old, new = spans[int(number)]
        first, end = np.interp([one["t"].min(), one["t"].max()], old, new)
        start = old[0] + 0.25 * round((first - old[0]) / 0.25)
        ticks = np.arange(start, end + 1e-9, 0.25)
        was = np.interp(ticks, new, old)
        rows = np.minimum(np.searchsorted(one["t"].to_numpy(), was - 1e-6), one.height - 1)
        counters = [
            name for name in one.columns if name.endswith("_total") and one[name].dtype == pl.Float64 and one[name].count()
        ]
        grown = {
            name: pl.Series(np.interp(was, one["t"].to_numpy(), one[name].fill_null(strategy="forward").to_numpy()))
            for name in counters
        }
        slower = [
            pl.col(name) * (one.height / max(1, ticks.size))
            for name in ("children_cpu_pct", "cpu_iowait_pct")
            if name in one.columns
        ]
        parts.append(one[rows].with_columns(slower).with_columns(t=pl.Series(ticks), **grown))
    return pl.concat(parts)


def expected(h200: Mapping[str, Any], card: cards.Card, *, paced: bool) -> frozenset[str]:
    """The labels that the roofline allows a program on that card, from its job's features on the H200.

    One label, or two where it is near a border: within half of the ridge point, or with a cause that takes 0.25 to 0.45 of the time.
    """
    ratio = ratios(card)
    causes = {cause: h200[f"share_{cause}"] for cause in ("idle", *CAUSES)}
    main = max(causes, key=causes.__getitem__)
    if main in ("communication", "contention") and causes[main] >= 0.5:
        return frozenset({main})  # who waits for other ranks, or shares the GPU, does so on any card
    if h200["math_when_busy"] is None:
        return frozenset({main})  # nothing ran that another card could do faster
    math = max(h200[f"{pipe}_when_busy"] * r for pipe, r in ratio.math.items())
    memory = h200["dram_active_when_busy"] * ratio.memory
    before = max(*(h200[f"{pipe}_when_busy"] for pipe in ratio.math), h200["dram_active_when_busy"])
    pace = max(math, memory) + 1 - before
    busy = h200["busy"]
    waits = idle_share(busy, busy * pace) if paced else 1.0
    share = causes[main] * waits / ((1 - busy) * waits + busy * pace)
    if share > (0.6 if main == "idle" else 0.45):
        return frozenset({main})
    nearest = max(math, memory) / pace
    intensity = math / memory  # operations for each byte, as a multiple of the card's ridge point
    labels = (
        {"compute"} if intensity >= 1.5 else {"memory_bandwidth"} if intensity <= 1 / 1.5 else {"compute", "memory_bandwidth"}
    )
    if nearest < 0.4:
        few = h200["sm_active_when_busy"] * ratio.multiprocessors
        labels = {"underfilled"} if few < 0.35 else labels | {"compute"}
    return frozenset(labels | ({main} if share > 0.25 else set()))
