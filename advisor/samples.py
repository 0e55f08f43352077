"""Samples of every GPU beside those of the processes that hold it, and the part of the window that is judged.

One row a GPU and sample, in time order. Rates are per second; cores are CPU time per second of wall time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from advisor.frames import FACTS, Window
from advisor.links import NVLINK_BYTES_PER_S

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

SAVING_BYTES_PER_S: Final = 20e6  # logs and metrics: below 1e6; a 9 GB torch.save: 770e6
CONTEXT_BYTES: Final = 750_000_000
"""A context that holds nothing else (measured 0.54 GB); the smallest program recorded holds 0.93 GB."""

GPU_METRICS: Final = (
    "gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes", "temperature_c", "power_w", "power_limit_w",
    "sm_clock_mhz", "mem_clock_mhz", "clocks_event_reasons", "gr_engine_active", "sm_active", "sm_occupancy", "int_active",
    "tensor_active", "dram_active", "fp64_active", "fp32_active", "fp16_active", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s",
    "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s", "pcie_link_gen", "pcie_link_width", "ecc_uncorrected_volatile_total",
    "remap_pending", "remap_failed", "recovery_action",
)  # fmt: skip
"""The metrics of a GPU that features are made of."""

PROCESS_METRICS: Final = (
    "gpu_mem_bytes", "cpu_pct", "children", "children_cpu_pct", "read_chars_total", "write_chars_total", "name",
)  # fmt: skip
"""What features are made of of a process that holds a GPU."""

_LANE_BYTES_PER_S: Final = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

_PCIE_PEAK: Final = 31.5e9  # Gen4 x16, where a card does not say what it has
_NVLINK_PEAK: Final = 300e9  # twelve links of the third generation, where nobody told of links at all


@dataclass(frozen=True, slots=True)
class Span:
    """What of a window is judged.

    From `patience_s` after the first sustained activity of a process that started within the window (after it took GPU
    memory, where there is no activity) to the process's end. `from_start`: the window shows processes from their start
    although none was seen to begin, as in a recording.
    """

    patience_s: float = 2.0
    from_start: bool = False


def known_sum(values: pl.Expr) -> pl.Expr:
    """The sum of what is known of `values`; null, not 0, where nothing is."""
    return pl.when(values.is_not_null().any()).then(values.sum())


_ALONE: Final = (known_sum(pl.col("children_cores")) < 0.2).alias("alone")


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


def complete(frame: pl.DataFrame, columns: Mapping[str, type[pl.DataType]]) -> pl.DataFrame:
    """`frame` with just `columns`; those it lacks are null."""
    have = frame.schema
    return frame.select(
        pl.lit(None, kind).alias(name)
        if name not in have
        else pl.col(name)
        if have[name] == kind
        else pl.col(name).cast(kind, strict=False)
        for name, kind in columns.items()
    )


def facts_of(window: Window) -> pl.DataFrame:
    """`window.facts` with every column, and the peak rates of the links: `pcie_peak`, `nvlink_peak` (bytes/s one way).

    Memory that is one with the host's has no size: how much of it is free depends on every program of the machine, so what
    compares a GPU's memory with its size is not evaluated there. Links that a card tells without their speed have that of its
    generation; where that is not known, nothing is compared with a peak.
    """
    facts = complete(window.facts, FACTS)
    lane = pl.col("pcie_link_gen_max").replace_strict(
        {float(k): v for k, v in _LANE_BYTES_PER_S.items()}, default=None, return_dtype=pl.Float64
    )
    links = pl.col("nvlink_links")
    speed = pl.coalesce(
        "nvlink_bytes_per_s_per_link",
        pl.col("compute_capability").replace_strict(NVLINK_BYTES_PER_S, default=None, return_dtype=pl.Float64),
    )
    return facts.with_columns(
        pcie_peak=(lane * pl.col("pcie_link_width_max")).fill_null(_PCIE_PEAK),
        nvlink_peak=pl.when(links.is_null()).then(_NVLINK_PEAK).when(links > 0).then(links * speed),
        mem_total_bytes=pl.when(pl.col("memory_kind").ne_missing("unified")).then("mem_total_bytes"),
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """What is judged of a window, in time order.

    `samples`: one row a GPU and time: GPU_METRICS, `busy` (see `judged`), of the processes that hold the GPU `cores` (the
    busiest one's) and `write_rate` (their sum), and the constants `pcie_peak` and `alone` (no helper process works;
    null: not known).
    `holders`: one row a (gpu, pid): means of what the process does, `home`, `helper`, `from_t`, and
    `presence`, the share of the readings in which it was there.
    `processes`: one row a GPU, pid and time, of which `holders` are made.
    """

    samples: pl.DataFrame
    holders: pl.DataFrame
    processes: pl.DataFrame


def judged(window: Window, facts: pl.DataFrame, span: Span) -> Judged:
    """The part of `window` that is judged.

    `busy` is the share of the sample in which the compute engine had work: GPM's graphics-engine activity, else NVML's
    utilisation (which also counts copies).
    """
    kinds: dict[str, type[pl.DataType]] = {"gpu": pl.Int64, "t": pl.Float64, **dict.fromkeys(GPU_METRICS, pl.Float64)}
    gpu = ordered(complete(window.gpu, kinds), "gpu", "t").with_columns(
        busy=pl.coalesce("gr_engine_active", pl.col("gpu_util_pct") / 100, "sm_active").clip(0, 1)
    )
    rows = _processes(window)
    cuts = _cuts(gpu, rows, span)
    gpu, rows = _within(gpu, cuts), _within(rows, cuts)
    held, at = _held(rows, facts)
    constants = facts.select("gpu", "pcie_peak").join(
        held.group_by("gpu").agg(_ALONE, usual_cores=pl.col("cores").max()), on="gpu", how="left"
    )
    samples = _beside(gpu, at).join(constants, on="gpu", how="left", maintain_order="left")
    # A tick whose processes were not read: they did what they usually do.
    return Judged(samples.with_columns(pl.coalesce("cores", "usual_cores")).drop("usual_cores"), held, rows)


def judged_again(samples: pl.DataFrame, processes: pl.DataFrame, facts: pl.DataFrame) -> Judged:
    """What is judged of a part of what was, with keys of its own: who holds the GPU is found anew."""
    held, _ = _held(processes, facts)
    alone = held.group_by("gpu").agg(_ALONE)
    return Judged(samples.drop("alone").join(alone, on="gpu", how="left", maintain_order="left"), held, processes)


def _held(rows: pl.DataFrame, facts: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Holders with their presence, and what they do together, by time."""
    held = _holders(rows, facts)
    at = _by_time(rows, held)
    ticks = at.group_by("gpu").agg(pl.len().alias("ticks"))
    return held.join(ticks, on="gpu", how="left").with_columns(presence=pl.col("rows") / pl.col("ticks")), at


def _processes(window: Window) -> pl.DataFrame:
    """`window.process` in order, with cores and rates. The rate of a counter that fell back (a restart, a recording's loop) is null."""
    numbers = dict.fromkeys(PROCESS_METRICS, pl.Float64)
    kinds: dict[str, type[pl.DataType]] = {"gpu": pl.Int64, "pid": pl.Int64, "t": pl.Float64, **numbers, "name": pl.String}
    rows = ordered(complete(window.process, kinds), "gpu", "pid", "t")
    same = (pl.col("gpu") == pl.col("gpu").shift(1)) & (pl.col("pid") == pl.col("pid").shift(1))
    return rows.with_columns(
        holder=(~same).fill_null(True).cum_sum().set_sorted(),
        gap=pl.when(same).then(pl.col("t").diff()),
    ).select(
        "holder", "gpu", "pid", "t", "gpu_mem_bytes", "children", "name",
        cores=pl.col("cpu_pct") / 100,
        children_cores=pl.col("children_cpu_pct") / 100,
        write_rate=_rate("write_chars_total"),
        read_rate=_rate("read_chars_total"),
    )  # fmt: skip


def _rate(counter: str) -> pl.Expr:
    grown = pl.col(counter).diff()
    return pl.when((pl.col("gap") > 0) & (grown >= 0)).then(grown / pl.col("gap"))


def _holders(rows: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """One row a (gpu, pid).

    A process that reaches into other GPUs (NCCL and careless code leave contexts on GPU 0) is at `home` where it holds the most
    memory. Loader processes that touched the GPU hold a bare context each: a `helper` of a parent, not a tenant.
    """
    held = rows.group_by("holder", maintain_order=True).agg(
        pl.col("gpu", "pid", "name").first(),
        pl.len().alias("rows"),
        pl.col("t").first().alias("from_t"),
        pl.col("gpu_mem_bytes", "cores", "children_cores", "read_rate", "write_rate").mean(),
        pl.col("children").median(),
    )
    memory = pl.col("gpu_mem_bytes").fill_null(0)
    return held.join(facts.select("gpu", "node"), on="gpu", how="left").with_columns(
        home=memory >= memory.max().over("node", "pid"),
        helper=(pl.col("gpu_mem_bytes") < CONTEXT_BYTES).fill_null(False)
        & (pl.col("children").fill_null(0) == 0)
        & (pl.col("children").max().over("gpu") >= pl.len().over("gpu") - 1)
        & (pl.len().over("gpu") > 1),
    )


def _by_time(rows: pl.DataFrame, held: pl.DataFrame) -> pl.DataFrame:
    """`gpu`, `t`, `cores`, `write_rate`, one row a GPU and time. Most GPUs have one process and need no grouping."""
    columns = ("gpu", "t", "cores", "write_rate")
    shared = held.group_by("gpu").len().filter(pl.col("len") > 1).get_column("gpu")
    if shared.is_empty():
        return rows.select(columns)
    many = pl.col("gpu").is_in(shared.implode())
    grouped = (
        rows.filter(many)
        .group_by("gpu", "t", maintain_order=True)
        .agg(pl.col("cores").max(), known_sum(pl.col("write_rate")).alias("write_rate"))
    )
    return pl.concat([rows.filter(~many).select(columns), grouped.select(columns)])


def _beside(gpu: pl.DataFrame, at: pl.DataFrame) -> pl.DataFrame:
    """`gpu` with the columns of `at` of the same GPU and time: a merge, as both are in order by one whole number."""
    start = gpu.get_column("t").min() or 0.0
    key = pl.col("gpu") * (1 << 36) + ((pl.col("t") - start) * 1000).round().cast(pl.Int64)
    keyed = at.select("cores", "write_rate", key.alias("_key")).sort("_key")
    keys = gpu.select(key.alias("_key").set_sorted())  # the keys alone: a merge copies what it is given
    beside = keys.join_asof(keyed, on="_key", tolerance=0, coalesce=True).drop("_key")
    return gpu.with_columns(beside.get_columns())


def _within(frame: pl.DataFrame, cuts: pl.DataFrame) -> pl.DataFrame:
    """The rows of `frame`, which is in order of GPUs, inside `cuts`."""
    if cuts.is_empty():
        return frame
    gpu, t = frame.get_column("gpu"), frame.get_column("t").to_numpy()
    keys = cuts.get_column("gpu")
    first, end = gpu.search_sorted(keys, "left"), gpu.search_sorted(keys, "right")
    kept = np.ones(frame.height, dtype=np.bool_)  # most GPUs are judged whole
    starts, ends = cuts.get_column("start_t").fill_null(-np.inf), cuts.get_column("end_t").fill_null(np.inf)
    for low, high, start_t, end_t in zip(first, end, starts, ends, strict=True):
        kept[low:high] = (t[low:high] >= start_t) & (t[low:high] <= end_t)
    return frame.filter(pl.Series(kept))


def _cuts(gpu: pl.DataFrame, rows: pl.DataFrame, span: Span) -> pl.DataFrame:
    """`gpu`, `start_t`, `end_t` of those GPUs of which not the whole window is judged; null: no cut on that side.

    Of a GPU that starts the window quiet the time before its first sustained activity is left out too: whether it was start-up,
    a save or waiting lies before the window.
    """
    seen = gpu.group_by("gpu").agg(
        pl.col("t").first().alias("first_t"),
        pl.col("t").last().alias("last_t"),
        pl.len().alias("samples"),
        (pl.col("busy").first() < ACTIVE).alias("quiet"),
        (pl.col("busy").max() >= ACTIVE).alias("active"),
        pl.col("t").filter(pl.col("mem_used_bytes") >= HELD_BYTES).first().alias("mem_t"),
    )
    period = (pl.col("last_t") - pl.col("first_t")) / (pl.col("samples") - 1).clip(1)
    seen = seen.join(_runs(rows, longest=span.from_start), on="gpu", how="left").with_columns(
        held_t=pl.coalesce("from_t", "mem_t"), slack=1.5 * period
    )
    began = pl.lit(True) if span.from_start else (pl.col("held_t") > pl.col("first_t") + pl.col("slack")).fill_null(False)
    ended = (pl.col("until_t") < pl.col("last_t") - pl.col("slack")).fill_null(False)
    seen = seen.with_columns(began=began, ended=ended, late=(pl.col("quiet") & pl.col("active")).fill_null(False)).filter(
        pl.col("began") | pl.col("ended") | pl.col("late")
    )
    if seen.is_empty():
        return pl.DataFrame(schema={"gpu": pl.Int64, "start_t": pl.Float64, "end_t": pl.Float64})
    asked = seen.filter(pl.col("began") | pl.col("late")).select("gpu", "from_t", "until_t")
    alive = (
        gpu.select("gpu", "t", "busy")
        .filter(pl.col("gpu").is_in(asked.get_column("gpu").implode()))
        .join(asked, on="gpu")
        .filter(
            (pl.col("until_t").is_null() | (pl.col("t") <= pl.col("until_t")))
            & (pl.col("from_t").is_null() | (pl.col("t") >= pl.col("from_t")))
        )
    )
    at_most = pl.coalesce("until_t", "last_t")
    return seen.join(_first_sustained(alive), on="gpu", how="left").select(
        "gpu",
        start_t=pl.when("began")
        .then(pl.coalesce("sustained_t", "held_t", "first_t") + span.patience_s)
        .when("late")
        .then(pl.min_horizontal(pl.col("sustained_t"), at_most)),
        end_t=pl.when("ended").then("until_t"),
    )


def _runs(rows: pl.DataFrame, *, longest: bool) -> pl.DataFrame:
    """`gpu`, `from_t`, `until_t` of one run of each GPU: processes whose holding overlaps in time.

    Successive runs are not tenants of each other: the newest is judged, of a whole recording the longest.
    """
    holders = rows.group_by("holder", maintain_order=True).agg(
        pl.col("gpu").first(),
        pl.col("t").first().alias("from_t"),
        pl.col("t").last().alias("last_t"),
        pl.col("t").filter(pl.col("cores").is_not_null()).last().alias("alive_t"),
    )
    before = pl.col("last_t").cum_max().shift(1).over("gpu")
    runs = (
        holders.sort("gpu", "from_t")
        .with_columns(run=(pl.col("from_t") > before).fill_null(False).cum_sum().over("gpu"))
        .group_by("gpu", "run", maintain_order=True)
        .agg(pl.col("from_t").min(), pl.coalesce(pl.col("alive_t").max(), pl.col("last_t").max()).alias("until_t"))
    )
    order = (pl.col("until_t") - pl.col("from_t")) if longest else pl.col("from_t")
    return runs.sort("gpu", order).group_by("gpu", maintain_order=True).last().select("gpu", "from_t", "until_t")


def _first_sustained(gpu: pl.DataFrame) -> pl.DataFrame:
    """`gpu`, `sustained_t`: when activity first lasted (see SUSTAINED) or recurred (see RECURS_S)."""
    if gpu.is_empty():
        return pl.DataFrame(schema={"gpu": pl.Int64, "sustained_t": pl.Float64})

    def later(name: str, k: int) -> pl.Expr:
        return pl.when(pl.col("gpu") == pl.col("gpu").shift(-k)).then(pl.col(name).shift(-k))

    seconds = (
        gpu.lazy()
        .group_by("gpu", (pl.col("t").floor()).alias("s"))
        .agg(pl.col("busy").mean(), pl.col("busy").max().alias("top"))
        .sort("gpu", "s")
        .with_columns(both=(pl.col("busy") + later("busy", 1).fill_null(pl.col("busy"))) / BURST_S)
        .with_columns(
            level=pl.col("both").max().over("gpu"),
            recurs=sum((later("top", k).fill_null(0) > ACTIVE).cast(pl.Int32) for k in range(RECURS_S)),
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
