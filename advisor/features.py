"""`features(window)`: one row a GPU, job and node, whose columns are what rules and bottlenecks are made of.

Plain metric names are means over the judged part of the window. Names in `_share` are fractions of it. `*_when_busy` are
intensities while the compute engine had work (mean over mean engine time). Null: not measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import polars as pl

from advisor import bottleneck, memory_growth
from advisor.bottleneck import SHARES
from advisor.frames import Window
from advisor.jobs import of_jobs
from advisor.measured import LOADED, measured
from advisor.samples import ACTIVE, HELD_BYTES, known_sum

MIN_SAMPLES: Final = 20
MIN_COVERAGE: Final = 0.8
"""Below either a GPU is not evaluated: absent samples are neither idle nor healthy."""


@dataclass(frozen=True, slots=True)
class Frames:
    """One row a key: `gpu` by GPU, `job` by job, `node` by node, `service` by serving engine, `fleet` one row of all.

    Targets that are not evaluated have `evaluated` false.
    """

    gpu: pl.DataFrame
    job: pl.DataFrame
    node: pl.DataFrame
    service: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"service": pl.Int64}))
    fleet: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema={"fleet": pl.String}))


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
    gpus = measured(window, patience_s, from_start=from_start)
    return features_of([gpus], min_samples=min_samples, min_coverage=min_coverage, min_s=min_s)


def features_of(
    parts: Iterable[pl.DataFrame], *, min_samples: int = MIN_SAMPLES, min_coverage: float = MIN_COVERAGE, min_s: float = 0.0
) -> Frames:
    """As `features`, of a window that was measured in parts."""
    gpus = pl.concat(parts, how="vertical_relaxed").sort("gpu", maintain_order=True)
    gpu = _derived(gpus, min_samples, min_coverage, min_s)
    gpu = bottleneck.with_shares(gpu)
    gpu = _beside_peers(gpu)
    job = of_jobs(gpu)
    return Frames(gpu=gpu, job=job, node=_of_nodes(gpu))


def _derived(gpu: pl.DataFrame, min_samples: int, min_coverage: float, min_s: float) -> pl.DataFrame:
    """Ratios and judgements that need several columns."""
    busy = pl.col("busy")
    length = pl.col("until_t") - pl.col("from_t")
    whole = pl.when(busy > bottleneck.BUSY_AT_ALL)
    total = pl.col("mem_total_bytes")
    own_limit = pl.when(pl.col("power_scope").ne_missing("module"))  # a module's is used up by its CPU too
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
        power_share=own_limit.then(pl.col("power_w") / pl.col("power_limit_w")),
        sm_clock_ratio=pl.col("sm_clock_mhz") / pl.col("sm_clock_max_mhz"),
        sm_clock_p95_ratio=pl.col("sm_clock_p95_mhz") / pl.col("sm_clock_max_mhz"),
        mem_clock_p95_ratio=pl.col("mem_clock_p95_mhz") / pl.col("mem_clock_max_mhz"),
        power_limit_ratio=own_limit.then(pl.col("power_limit_w") / pl.col("power_limit_default_w")),
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
    """Each GPU beside those of the same job (work) and those of its model on the node (temperature at the same power)."""
    in_job = (
        gpu.filter(pl.col("job").is_not_null() & pl.col("evaluated") & ~pl.col("free"))
        .group_by("job")
        .agg(
            pl.len().alias("job_gpus"),
            pl.col("busy").median().alias("job_busy_p50"),
        )
    )
    in_node = (
        gpu.filter(pl.col("evaluated") & (pl.col("loaded_share") >= LOADED))
        .group_by("node", "name")
        .agg(
            pl.len().alias("node_loaded_gpus"),
            pl.col("temperature_c").median().alias("node_temperature_c"),
            pl.col("loaded_power_w").median().alias("node_power_w"),
        )
    )
    gpu = gpu.join(in_job, on="job", how="left").join(in_node, on=("node", "name"), how="left", nulls_equal=True)
    alike = (pl.col("loaded_power_w") / pl.col("node_power_w")).is_between(0.9, 1.1) & (pl.col("node_loaded_gpus") >= 3)
    return gpu.with_columns(
        warmer_than_peers_c=pl.when(alike & (pl.col("loaded_share") >= LOADED)).then(
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
