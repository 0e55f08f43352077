"""`features(window)`: one row a GPU, job and node, whose columns are what rules and bottlenecks are made of.

Plain metric names are means over the judged part of the window. Names in `_share` are fractions of it. `*_when_busy` are
intensities while the compute engine had work (mean over mean engine time). Null: not measured.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

from advisor import bottleneck, memory_growth
from advisor.bottleneck import SHARES
from advisor.frames import Window
from advisor.jobs import of_jobs
from advisor.samples import ACTIVE, HELD_BYTES, Span, complete, facts_of, judged, known_sum

MIN_SAMPLES: Final = 20
MIN_COVERAGE: Final = 0.8
"""Below either a GPU is not evaluated: absent samples are neither idle nor healthy."""

_MEANS: Final = (
    "gpu_util_pct", "mem_copy_util_pct", "power_w", "sm_active", "sm_occupancy", "int_active", "tensor_active", "dram_active",
    "fp64_active", "fp32_active", "fp16_active", "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "nvlink_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
)  # fmt: skip
_THERMAL: Final = 0x20 | 0x40
_BRAKE: Final = 0x08 | 0x80
QUIET: Final = 0.003
"""An engine that did nothing at all (0.0001 measured); the thinnest launch-bound programs stay above 0.01."""
_SERVING: Final = r"(?i)vllm|sglang|tritonserver|trtllm|tensorrt|text-generation|ollama|llama-server|lmdeploy"
_LOADED: Final = 0.5  # an engine at work half of the time keeps its clocks up: those of idle cards say nothing


@dataclass(frozen=True, slots=True)
class Frames:
    """One row a key: `gpu` by GPU, `job` by job, `node` by node. Targets that are not evaluated have `evaluated` false."""

    gpu: pl.DataFrame
    job: pl.DataFrame
    node: pl.DataFrame


def features(
    window: Window,
    patience_s: float = 2.0,
    *,
    from_start: bool = False,
    min_samples: int = MIN_SAMPLES,
    min_coverage: float = MIN_COVERAGE,
    min_s: float = 0.0,
) -> Frames:
    """The features of every GPU, job and node of `window`; see `samples.Span` for patience_s and from_start.

    A GPU of which less than `min_samples`, `min_coverage` or `min_s` seconds is left to judge is not evaluated.
    """
    facts = facts_of(window).with_columns(blind=pl.col("gpu").is_in(list(window.blind)))
    part = judged(window, facts, Span(patience_s, from_start))
    gpu = facts.join(_of_samples(part.samples), on="gpu", how="left").join(_of_holders(part.holders), on="gpu", how="left")
    gpu = gpu.join(_of_host(window, facts, gpu), on="node", how="left")
    gpu = _derived(gpu, min_samples, min_coverage, min_s)
    gpu = bottleneck.with_shares(gpu)
    gpu = _beside_peers(gpu)
    job = of_jobs(gpu)
    return Frames(gpu=gpu, job=job, node=_of_nodes(gpu))


def _bit(mask: int) -> pl.Expr:
    """Share of the loaded samples in which any bit of `mask` is set; 0 when none was loaded, null when never read."""
    bits = pl.col("reasons")
    known = pl.col("loaded") & bits.is_not_null()
    return pl.when(bits.is_not_null().any()).then(
        (((bits & mask) != 0) & known).sum() / pl.max_horizontal(known.sum(), pl.lit(1))
    )


def _reach(samples: pl.DataFrame) -> int:
    """How many samples half a second is, one at least."""
    steps = samples.get_column("t").head(2000).diff()
    period = steps.filter(steps > 0).median()
    return max(1, min(10, round(0.5 / float(period)))) if isinstance(period, float) and period > 0 else 1


def _of_samples(samples: pl.DataFrame) -> pl.DataFrame:
    """One row a GPU from its samples."""
    rows = samples.lazy().with_columns(
        loaded=pl.col("busy") >= _LOADED,
        reasons=pl.col("clocks_event_reasons").cast(pl.Int64, strict=False),
        quiet=pl.col("busy") < QUIET,
    )
    rows = rows.with_columns(bottleneck.causes(_reach(samples)))
    loaded = pl.col("loaded")
    grouped = rows.group_by("gpu", maintain_order=True).agg(
        pl.len().alias("samples"),
        pl.col("t").first().alias("from_t"),
        pl.col("t").last().alias("until_t"),
        # the usual step even where many samples were lost
        pl.col("t").diff().quantile(0.25).alias("period_s"),
        pl.col("busy").mean(),
        *[pl.col(name).mean() for name in _MEANS],
        pl.col("sm_active").is_not_null().mean().alias("gpm_share"),
        pl.col("cores").mean().alias("main_cores"),
        (pl.col("cores") * (1 - pl.col("busy"))).sum().alias("_idle_cores"),
        (1 - pl.col("busy")).filter(pl.col("cores").is_not_null()).sum().alias("_idle"),
        pl.col("quiet").mean().alias("quiet_share"),
        (pl.col("quiet") != pl.col("quiet").shift(1)).sum().alias("turns"),
        pl.col("power_limit_w").last().alias("power_limit_now_w"),
        pl.col("sm_clock_mhz").filter(loaded).mean(),
        pl.col("sm_clock_mhz").filter(loaded).quantile(0.95).alias("sm_clock_p95_mhz"),
        pl.col("sm_clock_mhz").max().alias("sm_clock_top_mhz"),
        pl.col("mem_clock_mhz").filter(loaded).quantile(0.95).alias("mem_clock_p95_mhz"),
        loaded.mean().alias("loaded_share"),
        pl.col("temperature_c").filter(loaded).mean(),
        pl.col("power_w").filter(loaded).mean().alias("loaded_power_w"),
        _bit(0x04).alias("power_cap_share"),
        _bit(_THERMAL).alias("thermal_slowdown_share"),
        _bit(_BRAKE).alias("power_brake_share"),
        _bit(0x08 | 0x40 | 0x80).alias("hw_slowdown_share"),
        _bit(0x20).alias("sw_thermal_share"),
        pl.col("mem_used_bytes").max().alias("mem_used_max_bytes"),
        pl.col("mem_used_bytes").last().alias("mem_used_last_bytes"),
        pl.col("mem_used_bytes").mean().alias("mem_used_bytes"),
        *memory_growth.aggregates(),
        pl.col("pcie_link_gen").filter(loaded).max().alias("pcie_link_gen"),
        pl.col("pcie_link_width").filter(loaded).max().alias("pcie_link_width"),
        (pl.col("ecc_uncorrected_volatile_total").last() - pl.col("ecc_uncorrected_volatile_total").min())
        .alias("ecc_uncorrected_new"),
        pl.col("ecc_uncorrected_volatile_total").last().alias("ecc_uncorrected_volatile"),
        pl.col("remap_pending").last(),
        pl.col("remap_failed").last(),
        pl.col("recovery_action").last(),
        *[pl.col(f"part_{name}").mean() for name in bottleneck.PARTS],
    )  # fmt: skip
    return grouped.collect().join(memory_growth.rises(samples), on="gpu", how="left")


def _of_holders(holders: pl.DataFrame) -> pl.DataFrame:
    """One row a GPU that a process holds: how many are at home there and compute, and what they do together.

    Each counts by its presence: a program that restarts is one tenant, whatever its pids.
    """
    computes = pl.col("home") & (pl.col("cores").fill_null(1.0) >= bottleneck.TENANT_CORES) & ~pl.col("helper")
    sums = {
        "children": "children",
        "children_cores": "children_cores",
        "read_rate": "read_bytes_per_s",
        "write_rate": "write_bytes_per_s",
    }
    return holders.group_by("gpu").agg(
        pl.len().alias("processes"),
        (computes * pl.col("presence")).sum().round().cast(pl.Int64).alias("tenants"),
        known_sum(pl.col("gpu_mem_bytes") * pl.col("presence")).alias("held_bytes"),
        pl.col("pid").sort_by(pl.col("gpu_mem_bytes").fill_null(0), descending=True).first().alias("pid"),
        *[known_sum(pl.col(a) * pl.col("presence")).alias(b) for a, b in sums.items()],
        pl.col("name").str.contains(_SERVING).any(ignore_nulls=False).alias("serves"),
    )


def _of_host(window: Window, facts: pl.DataFrame, gpu: pl.DataFrame) -> pl.DataFrame:
    """One row a node: means over what is judged of its GPUs."""
    names = (
        "cpu_busy_cores", "cpu_core_max_pct", "cpu_iowait_pct", "mem_used_bytes", "disk_read_bytes_total",
        "disk_write_bytes_total", "net_rx_bytes_total", "net_tx_bytes_total",
    )  # fmt: skip
    host = complete(window.host, {"node": pl.Int64, "t": pl.Float64, **dict.fromkeys(names, pl.Float64)})
    spans = gpu.group_by("node").agg(pl.col("from_t").min(), pl.col("until_t").max())
    host = (
        host.join(spans, on="node", how="left")
        .filter(
            (pl.col("from_t").is_null() | (pl.col("t") >= pl.col("from_t")))
            & (pl.col("until_t").is_null() | (pl.col("t") <= pl.col("until_t")))
        )
        .sort("node", "t")
    )

    def grown(counter: str) -> pl.Expr:
        """Growth a second, the fall of a restart or a recording's loop left out."""
        rise = pl.col(counter).diff()
        time = pl.col("t").diff().filter(rise >= 0).sum()
        return pl.when(time > 0).then(rise.filter(rise >= 0).sum() / time)

    cores = facts.group_by("node").agg(pl.col("cores").first(), pl.col("host_mem_total_bytes").first())
    return (
        host.group_by("node")
        .agg(
            pl.len().alias("host_samples"),
            pl.col("cpu_busy_cores").mean(),
            pl.col("cpu_core_max_pct").mean(),
            pl.col("cpu_iowait_pct").mean(),
            pl.col("mem_used_bytes").last().alias("host_mem_used_bytes"),
            grown("disk_read_bytes_total").alias("disk_read_bytes_per_s"),
            grown("disk_write_bytes_total").alias("disk_write_bytes_per_s"),
            grown("net_rx_bytes_total").alias("net_rx_bytes_per_s"),
            grown("net_tx_bytes_total").alias("net_tx_bytes_per_s"),
        )
        .join(cores, on="node", how="left")
        .with_columns(
            iowait_cores=pl.col("cpu_iowait_pct") / 100 * pl.col("cores"),
            free_cores=(pl.col("cores") - pl.col("cpu_busy_cores")).clip(0),
        )
        .drop("cores", "host_mem_total_bytes")
    )


def _derived(gpu: pl.DataFrame, min_samples: int, min_coverage: float, min_s: float) -> pl.DataFrame:
    """Ratios and judgements that need several columns."""
    busy = pl.col("busy")
    length = pl.col("until_t") - pl.col("from_t")
    whole = pl.when(busy > bottleneck.BUSY_AT_ALL)
    total = pl.col("mem_total_bytes")
    gpu = gpu.with_columns(
        samples=pl.col("samples").fill_null(0),
        window_s=length + pl.col("period_s").fill_null(0),
        processes=pl.when(~pl.col("blind")).then(pl.col("processes").fill_null(0)),
        tenants=pl.when(~pl.col("blind")).then(pl.col("tenants").fill_null(0)),
        power_limit_w=pl.coalesce("power_limit_now_w", "power_limit_w"),
        main_cores_idle=pl.when(pl.col("_idle") > 0).then(pl.col("_idle_cores") / pl.col("_idle")),
        pcie_bytes_per_s=pl.max_horizontal("pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s"),
        nvlink_bytes_per_s=pl.max_horizontal("nvlink_tx_bytes_per_s", "nvlink_rx_bytes_per_s"),
    )
    gpu = memory_growth.of_window(gpu).drop("power_limit_now_w", "_idle_cores", "_idle")
    gpu = gpu.with_columns(
        coverage=pl.when(pl.col("period_s") > 0).then(pl.col("samples") * pl.col("period_s") / pl.col("window_s")).clip(0, 1),
        mem_used_share=pl.col("mem_used_max_bytes") / total,
        mem_growth_share=pl.col("mem_growth_bytes") / total,
        # what works is not free, whoever could not be named
        free=(pl.col("processes").fill_null(0) == 0)
        & (pl.col("mem_used_max_bytes").fill_null(0) < HELD_BYTES)
        & (busy.fill_null(0) < ACTIVE),
        power_share=pl.col("power_w") / pl.col("power_limit_w"),
        sm_clock_ratio=pl.col("sm_clock_mhz") / pl.col("sm_clock_max_mhz"),
        sm_clock_p95_ratio=pl.col("sm_clock_p95_mhz") / pl.col("sm_clock_max_mhz"),
        mem_clock_p95_ratio=pl.col("mem_clock_p95_mhz") / pl.col("mem_clock_max_mhz"),
        power_limit_ratio=pl.col("power_limit_w") / pl.col("power_limit_default_w"),
        pcie_share=pl.col("pcie_bytes_per_s") / pl.col("pcie_peak"),
        nvlink_share=pl.col("nvlink_bytes_per_s") / pl.col("nvlink_peak"),
        pcie_gen_ratio=pl.col("pcie_link_gen") / pl.col("pcie_link_gen_max"),
        pcie_width_ratio=pl.col("pcie_link_width") / pl.col("pcie_link_width_max"),
        worker_cores=pl.when(pl.col("children") >= 1).then(pl.col("children_cores") / pl.col("children")),
        host_mem_share=pl.col("host_mem_used_bytes") / pl.col("host_mem_total_bytes"),
    )
    return gpu.with_columns(
        **{f"{name}_when_busy": whole.then(pl.col(name) / busy).clip(0, 1) for name in bottleneck.UNITS},
        evaluated=(
            (pl.col("samples") >= min_samples)
            & (pl.col("coverage") >= min_coverage)
            & (pl.col("window_s") >= min_s)
            & busy.is_not_null()
        ).fill_null(False),
    )


def _beside_peers(gpu: pl.DataFrame) -> pl.DataFrame:
    """Each GPU beside those of the same job (work) and of the same node (temperature at the same power)."""
    in_job = (
        gpu.filter(pl.col("job").is_not_null() & pl.col("evaluated") & ~pl.col("free"))
        .group_by("job")
        .agg(
            pl.len().alias("job_gpus"),
            pl.col("busy").median().alias("job_busy_p50"),
        )
    )
    in_node = (
        gpu.filter(pl.col("evaluated") & (pl.col("loaded_share") >= _LOADED))
        .group_by("node")
        .agg(
            pl.len().alias("node_loaded_gpus"),
            pl.col("temperature_c").median().alias("node_temperature_c"),
            pl.col("loaded_power_w").median().alias("node_power_w"),
        )
    )
    gpu = gpu.join(in_job, on="job", how="left").join(in_node, on="node", how="left")
    alike = (pl.col("loaded_power_w") / pl.col("node_power_w")).is_between(0.9, 1.1) & (pl.col("node_loaded_gpus") >= 3)
    return gpu.with_columns(
        warmer_than_peers_c=pl.when(alike & (pl.col("loaded_share") >= _LOADED)).then(
            pl.col("temperature_c") - pl.col("node_temperature_c")
        )
    )


def _of_nodes(gpu: pl.DataFrame) -> pl.DataFrame:
    """One row a node."""
    first = (
        "cores", "host_mem_total_bytes", "host_samples", "cpu_busy_cores", "cpu_core_max_pct", "cpu_iowait_pct", "iowait_cores",
        "free_cores", "host_mem_used_bytes", "host_mem_share", "disk_read_bytes_per_s", "disk_write_bytes_per_s",
    )  # fmt: skip
    judged_gpus = gpu.filter(pl.col("evaluated"))
    held = ~pl.col("free")
    return (
        judged_gpus.group_by("node", maintain_order=True)
        .agg(
            pl.len().alias("gpus"),
            pl.col("gpu").alias("members"),
            *[pl.col(name).first() for name in first],
            *[known_sum(pl.col(name).filter(held)).alias(name) for name in ("children", "children_cores")],
            *[known_sum(pl.col(name)).alias(name) for name in ("processes", "mem_total_bytes")],
            *[pl.col(f"share_{name}").filter(held).mean() for name in SHARES],
            pl.col("window_s").max(),
        )
        .with_columns(evaluated=pl.col("host_samples").fill_null(0) > 0)
    )
