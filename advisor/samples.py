"""Samples of every GPU beside those of the processes that hold it, and the part of the window that is judged.

One row a GPU and sample, in time order. Rates are per second; cores are CPU time per second of wall time.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from advisor.frames import CONSTANTS, FACTS, Window

SUSTAINED: Final = 0.25
"""A part of start-up is a burst, not work, below this share of the busiest two seconds. Measured: compilation's trial
steps 0.08 of it, the first second of real work 0.26 and more as the two seconds slide into it."""
BURST_S: Final = 2.0
RECURS_S: Final = 8
"""Work that recurs in most of this many seconds counts as sustained, however thin: a starved or lightly used GPU."""
ACTIVE: Final = 0.01
"""Engine time below this is context creation and driver housekeeping (measured 0.0001 to 0.0076), not work."""
HELD_BYTES: Final = 1 << 30
"""Memory in use that no idle driver takes (measured 0.6 GB on an H200 that nobody holds)."""

CONTEXT_BYTES: Final = 750_000_000
"""A context that holds nothing else (measured 0.54 GB); the smallest program recorded holds 0.93 GB."""

GPU_METRICS: Final = (
    "gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes", "temperature_c", "memory_temperature_c", "power_w", "power_limit_w",
    "sm_clock_mhz", "mem_clock_mhz", "clocks_event_reasons", "gr_engine_active", "sm_active", "sm_occupancy", "int_active",
    "tensor_active", "dram_active", "fp64_active", "fp32_active", "fp16_active", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s",
    "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "pcie_link_gen", "pcie_link_width", "ecc_uncorrected_volatile_total",
    "remap_pending", "remap_failed", "recovery_action",
)  # fmt: skip
"""The metrics of a GPU that features are made of."""

_LANE_BYTES_PER_S: Final = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

_PCIE_PEAK: Final = 31.5e9  # Gen4 x16, where a card does not say what it has
_NVLINK_PEAK: Final = 300e9  # twelve links of the third generation, likewise


@dataclass(frozen=True, slots=True)
class Span:
    """What of a window is judged.

    From `patience_s` after the first sustained activity of a process that started within the window (after it took GPU
    memory, where there is no activity) to the process's end. `from_start`: the window shows processes from their start
    although none was seen to begin, as in a recording.
    """

    patience_s: float = 2.0
    from_start: bool = False


def ordered(frame: pl.DataFrame, *keys: str) -> pl.DataFrame:
    """`frame` in the order of `keys`; costs next to nothing where it is so already, as the store's frames are."""
    if frame.height < 2:
        return frame
    first, *rest = keys
    rises = pl.col(first) > pl.col(first).shift(1)
    level = pl.col(first) == pl.col(first).shift(1)
    for key in rest:
        rises = rises | (level & (pl.col(key) >= pl.col(key).shift(1)))
        level = level & (pl.col(key) == pl.col(key).shift(1))
    if frame.select(rises.fill_null(True).all()).item():
        return frame
    return frame.sort(*keys)


def complete(frame: pl.DataFrame, columns: dict[str, pl.DataType] | dict[str, type[pl.DataType]]) -> pl.DataFrame:
    """`frame` with just `columns`; those it lacks are null."""
    have = set(frame.columns)
    return frame.select([pl.col(n).cast(t, strict=False) if n in have else pl.lit(None, t).alias(n) for n, t in columns.items()])


def facts_of(window: Window) -> pl.DataFrame:
    """`window.facts` with every column, and the peak rates of the links: `pcie_peak`, `nvlink_peak` (bytes/s one way)."""
    facts = complete(window.facts, FACTS)
    lane = pl.col("pcie_link_gen_max").replace_strict(
        {float(k): v for k, v in _LANE_BYTES_PER_S.items()}, default=None, return_dtype=pl.Float64
    )
    return facts.with_columns(
        pcie_peak=(lane * pl.col("pcie_link_width_max")).fill_null(_PCIE_PEAK),
        nvlink_peak=(pl.col("nvlink_links") * pl.col("nvlink_bytes_per_s_per_link")).fill_null(_NVLINK_PEAK),
    )


def holders(window: Window, facts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Who holds which GPU: one row each (GPU, pid), and one row a GPU and time with what its processes do.

    The rates of a counter that fell back (a restart, a recording's loop) are null there. A process that reaches into
    other GPUs (NCCL and careless code leave contexts on GPU 0) is at home where it holds the most memory.
    """
    kinds = {
        "gpu": pl.Int64, "pid": pl.Int64, "t": pl.Float64, "gpu_mem_bytes": pl.Float64, "cpu_pct": pl.Float64,
        "children": pl.Float64, "children_cpu_pct": pl.Float64, "read_chars_total": pl.Float64, "write_chars_total": pl.Float64, "name": pl.String,
    }  # fmt: skip
    rows = ordered(complete(window.process, kinds), "gpu", "pid", "t")
    same = (pl.col("gpu") == pl.col("gpu").shift(1)) & (pl.col("pid") == pl.col("pid").shift(1))
    gap = pl.when(same).then(pl.col("t").diff())
    rows = rows.select(
        "gpu", "pid", "t", "gpu_mem_bytes", "children", "name",
        cores=pl.col("cpu_pct") / 100,
        children_cores=pl.col("children_cpu_pct") / 100,
        write_rate=_rate("write_chars_total", gap),
        read_rate=_rate("read_chars_total", gap),
    )  # fmt: skip
    by_pid = (
        rows.group_by("gpu", "pid", maintain_order=True)
        .agg(
            pl.col("t").min().alias("from_t"),
            pl.col("t").filter(pl.col("cores").is_not_null()).max().alias("alive_t"),
            pl.col("t").max().alias("until_t"),
            pl.col("gpu_mem_bytes").mean(),
            pl.col("cores").mean(),
            pl.col("children").max(),
            pl.col("name").first(),
        )
        .join(facts.select("gpu", "node"), on="gpu", how="left")
        .with_columns(
            home=pl.col("gpu_mem_bytes").fill_null(0) >= pl.col("gpu_mem_bytes").fill_null(0).max().over("node", "pid"),
            # Loader processes that touched the GPU hold a bare context each: helpers of a parent, not tenants.
            helper=(pl.col("gpu_mem_bytes") < CONTEXT_BYTES)
            & (pl.col("children").fill_null(0) == 0)
            & (pl.col("children").max().over("gpu") >= pl.len().over("gpu") - 1)
            & (pl.len().over("gpu") > 1),
        )
    )
    return by_pid, _by_time(rows, by_pid)


def _rate(counter: str, gap: pl.Expr) -> pl.Expr:
    grown = pl.col(counter).diff()
    return pl.when((gap > 0) & (grown >= 0)).then(grown / gap)


def _by_time(rows: pl.DataFrame, by_pid: pl.DataFrame) -> pl.DataFrame:
    """One row a GPU and time: the busiest process's cores, everything else summed. Most GPUs have one process: no grouping."""
    shared = by_pid.group_by("gpu").len().filter(pl.col("len") > 1).get_column("gpu")
    columns = ("gpu", "t", "cores", "children", "children_cores", "write_rate", "read_rate")
    if shared.is_empty():
        return rows.select(columns)
    many = pl.col("gpu").is_in(shared.implode())
    grouped = (
        rows.filter(many)
        .group_by("gpu", "t")
        .agg(pl.col("cores").max(), *[pl.when(pl.col(c).is_not_null().any()).then(pl.col(c).sum()).alias(c) for c in columns[3:]])
        .select(columns)
    )
    return pl.concat([rows.filter(~many).select(columns), grouped])


def judged(window: Window, facts: pl.DataFrame, span: Span) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The samples that are judged, processes beside GPUs, and the holders (see `holders`).

    `busy` is the share of the sample in which the compute engine had work: GPM's graphics-engine activity, else NVML's
    utilisation (which also counts copies).
    """
    by_pid, at = holders(window, facts)
    kinds: dict[str, type[pl.DataType]] = {"gpu": pl.Int64, "t": pl.Float64, **dict.fromkeys(GPU_METRICS, pl.Float64)}
    gpu = ordered(complete(window.gpu, kinds), "gpu", "t").with_columns(
        busy=pl.coalesce("gr_engine_active", pl.col("gpu_util_pct") / 100, "sm_active").clip(0, 1)
    )
    cuts = _cuts(gpu, by_pid, facts, span)
    if cuts.height:
        gpu = (
            gpu.join(cuts, on="gpu", how="left", maintain_order="left")
            .filter(
                (pl.col("start_t").is_null() | (pl.col("t") >= pl.col("start_t")))
                & (pl.col("end_t").is_null() | (pl.col("t") <= pl.col("end_t")))
            )
            .drop("start_t", "end_t")
        )
    gpu = gpu.join(at, on=["gpu", "t"], how="left", maintain_order="left")
    return gpu.join(facts.select("gpu", "pcie_peak"), on="gpu", how="left", maintain_order="left"), by_pid


def _cuts(gpu: pl.DataFrame, by_pid: pl.DataFrame, facts: pl.DataFrame, span: Span) -> pl.DataFrame:
    """`gpu`, `start_t`, `end_t` of those GPUs of which not the whole window is judged; null: no cut on that side."""
    seen = gpu.group_by("gpu").agg(
        pl.col("t").min().alias("first_t"),
        pl.col("t").max().alias("last_t"),
        pl.col("t").diff().median().alias("period"),
        pl.col("t").filter(pl.col("mem_used_bytes") >= HELD_BYTES).min().alias("mem_t"),
    )
    held = by_pid.group_by("gpu").agg(
        pl.col("from_t").min(), pl.coalesce(pl.col("alive_t").max(), pl.col("until_t").max()).alias("until_t")
    )
    seen = seen.join(held, on="gpu", how="left").with_columns(
        held_t=pl.coalesce("from_t", "mem_t"), slack=1.5 * pl.col("period").fill_null(1.0)
    )
    began = pl.lit(True) if span.from_start else (pl.col("held_t") > pl.col("first_t") + pl.col("slack")).fill_null(False)
    ended = (pl.col("until_t") < pl.col("last_t") - pl.col("slack")).fill_null(False)
    seen = seen.with_columns(began=began, ended=ended).filter(pl.col("began") | pl.col("ended"))
    if seen.is_empty():
        return pl.DataFrame(schema={"gpu": pl.Int64, "start_t": pl.Float64, "end_t": pl.Float64})
    alive = gpu.join(seen.filter("began").select("gpu", "until_t"), on="gpu").filter(
        pl.col("until_t").is_null() | (pl.col("t") <= pl.col("until_t"))
    )
    starts = _first_sustained(alive)
    return seen.join(starts, on="gpu", how="left").select(
        "gpu",
        start_t=pl.when("began").then(
            pl.when(pl.col("sustained_t").is_not_null())
            .then(pl.min_horizontal(pl.col("sustained_t") + span.patience_s, pl.coalesce("until_t", "last_t")))
            .otherwise(pl.min_horizontal(pl.coalesce("held_t", "first_t") + span.patience_s, "last_t"))
        ),
        end_t=pl.when("ended").then("until_t"),
    )


def _first_sustained(gpu: pl.DataFrame) -> pl.DataFrame:
    """`gpu`, `sustained_t`: when activity first lasted (see SUSTAINED) or recurred (see RECURS_S)."""
    if gpu.is_empty():
        return pl.DataFrame(schema={"gpu": pl.Int64, "sustained_t": pl.Float64})
    seconds = (
        gpu.lazy()
        .group_by("gpu", (pl.col("t").floor()).alias("s"))
        .agg(pl.col("busy").mean(), pl.col("busy").max().alias("top"))
        .sort("gpu", "s")
        .with_columns(both=(pl.col("busy") + pl.col("busy").shift(-1).over("gpu").fill_null(pl.col("busy"))) / BURST_S)
        .with_columns(
            level=pl.col("both").max().over("gpu"),
            recurs=sum((pl.col("top").shift(-k).over("gpu").fill_null(0) > ACTIVE).cast(pl.Int32) for k in range(RECURS_S)),
        )
        .filter(
            (pl.col("top") > ACTIVE)
            & ((pl.col("both") >= SUSTAINED * pl.col("level")) | (pl.col("recurs") >= 0.6 * RECURS_S))
            & (pl.col("level") > ACTIVE / 2)
        )
        .group_by("gpu")
        .agg(pl.col("s").min())
        .collect()
    )
    within = gpu.join(seconds, on="gpu").filter((pl.col("t") >= pl.col("s")) & (pl.col("busy") > ACTIVE))
    return within.group_by("gpu").agg(pl.col("t").min().alias("sustained_t"))


__all__ = ["CONSTANTS", "Span", "complete", "facts_of", "holders", "judged", "ordered"]
