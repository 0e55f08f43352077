"""A job's features, shares and label, from those of its GPUs.

Shares are the means over the GPUs that work; where ranks talk and one is held up, they are that rank's: the others spin
in the collective meanwhile.
"""

from typing import Final

import polars as pl

from advisor.bottleneck import BUSY_AT_ALL, SHARES, UNITS, between_ranks, label, zero
from advisor.samples import known_sum

HELD_UP: Final = 0.78  # engine time of the least busy rank over the busiest: healthy pairs 0.92 and more

_JOB_SUMS: Final = ("children", "children_cores", "read_bytes_per_s", "write_bytes_per_s", "held_bytes", "processes")
_JOB_MEANS: Final = (
    "busy", "gpu_util_pct", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp32_active", "fp64_active",
    "power_share", "main_cores", "main_cores_idle", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "nvlink_bytes_per_s",
    "pcie_share", "nvlink_share", "mem_used_share", "quiet_share", *[f"{name}_when_busy" for name in UNITS], "math_when_busy",
)  # fmt: skip
_JOB_HOST: Final = (
    "node", "cores", "free_cores", "cpu_busy_cores", "iowait_cores", "disk_read_bytes_per_s", "disk_write_bytes_per_s",
    "host_mem_share", "net_tx_bytes_per_s", "net_rx_bytes_per_s", "mem_total_bytes", "pcie_peak", "power_limit_w", "power_limit_default_w", "power_limit_ratio", "sm_clock_max_mhz", "nvlink_peak", "index",
    "compute_capability", "pid",
)  # fmt: skip


def of_jobs(gpu: pl.DataFrame) -> pl.DataFrame:
    """One row a job: means over its GPUs that work (over all it holds, when none does), its shares and its label."""
    mine = gpu.filter(pl.col("job").is_not_null() & pl.col("evaluated"))
    works = (zero("busy") > BUSY_AT_ALL) & ~pl.col("free")
    any_works = works.any().over("job")
    counted = works | (~any_works & (~pl.col("free") | pl.col("free").all().over("job")))
    mine = mine.with_columns(works=works, counted=counted)
    on = pl.col("counted")
    busy_on = pl.col("busy").filter(on)
    sm_on = pl.col("sm_active").filter(on)
    on_node = pl.len().cast(pl.Int64)
    if mine.select(pl.struct("job", "node").n_unique() > pl.col("job").n_unique()).item():
        mine, on_node = _of_fullest_node(mine), pl.col("node").unique_counts().max().cast(pl.Int64)
    job = mine.group_by("job", maintain_order=True).agg(
        pl.len().alias("gpus"),
        on_node.alias("gpus_on_node"),
        pl.col("gpu").alias("members"),
        # who holds a GPU of which neither processes nor memory are known, nobody can say
        pl.when(~(pl.col("blind") & pl.col("mem_used_max_bytes").is_null()).any())
        .then((~pl.col("free")).sum())
        .alias("held_gpus"),
        pl.col("works").sum().alias("working_gpus"),
        pl.col("index").filter(~pl.col("works")).alias("idle_indices"),
        *[known_sum(pl.col(name).filter(on)).alias(name) for name in _JOB_SUMS],
        *[pl.col(name).filter(on).mean() for name in _JOB_MEANS],
        *[pl.col(name).filter(on).first() for name in _JOB_HOST],
        *[pl.col(f"share_{name}").filter(on).mean() for name in SHARES],
        *[pl.col(f"share_{name}").filter(on).sort_by(busy_on).first().alias(f"_slow_{name}") for name in SHARES],
        pl.col("waits_for_data").filter(on).any(),
        pl.col("talks").filter(on).any(ignore_nulls=False),
        pl.col("serves").filter(on).any(ignore_nulls=False),
        pl.col("web_process").filter(on).any(ignore_nulls=False),
        between_ranks().filter(on).any().alias("ranks_talk_over_pcie"),
        pl.col("tenants").filter(on).max(),
        pl.col("free").all().alias("free"),
        pl.col("mem_used_share").filter(on).max().alias("mem_used_share_max"),
        pl.col("mem_growth_share").filter(on).max(),
        *[
            pl.col(name).filter(on).sort_by(pl.col("mem_growth_bytes").filter(on).fill_null(0)).last()
            for name in ("mem_growth_bytes", "mem_growth_s", "mem_growth_bytes_per_s", "seconds_to_full", "mem_fills_s")
        ],
        (busy_on.min() / busy_on.max()).alias("least_busy_ratio"),
        (sm_on.max() / sm_on.min()).alias("most_sm_ratio"),
        pl.col("index").filter(on).sort_by(busy_on).first().alias("least_busy_index"),
        pl.when(sm_on.is_not_null().any())
        .then(pl.col("index").filter(on).sort_by(sm_on.fill_null(0)).last())
        .alias("most_sm_index"),
        pl.col("window_s").max(),
        pl.col("samples").min(),
        pl.col("engine").filter(on).first(),
    )
    order = ["high", "medium", "low"]
    worst = (
        mine.filter(on)
        .group_by("job")
        .agg(pl.col("confidence").replace_strict(order, [0, 1, 2], return_dtype=pl.Int32).max().alias("_rank"))
    )
    job = job.join(worst, on="job", how="left")
    # In lock step a job is as slow as the rank that is held up: the others spin in the collective meanwhile.
    held_up = (pl.col("talks") & (pl.col("least_busy_ratio") <= HELD_UP)).fill_null(False)
    job = job.with_columns(
        [
            pl.when(held_up).then(pl.col(f"_slow_{name}")).otherwise(pl.col(f"share_{name}")).alias(f"share_{name}")
            for name in SHARES
        ]
    ).drop([f"_slow_{name}" for name in SHARES])
    return job.with_columns(
        evaluated=pl.lit(True),
        bottleneck=label(),
        confidence=pl.col("_rank").replace_strict([0, 1, 2], order, default=None, return_dtype=pl.String),
        worker_cores=pl.when(pl.col("children") >= 1).then(pl.col("children_cores") / pl.col("children")),
        copy_rate_share=pl.when(pl.col("busy") < 0.99).then(
            pl.max_horizontal("pcie_share", pl.col("pcie_share") / (1 - pl.col("busy")))
        ),
        suggested_workers=(pl.col("cores") / pl.col("gpus_on_node") * 0.5).floor().clip(2, 16).cast(pl.Int64),
        suggested_cpus=((pl.col("cores") / pl.col("gpus_on_node") * 0.5).floor().clip(2, 16) + 1).cast(pl.Int64),
    ).drop("_rank")


def _of_fullest_node(mine: pl.DataFrame) -> pl.DataFrame:
    """`mine` with what a job's helper processes do told of the node alone where they do most, and that node first: its cores stand beside it."""
    on_node = pl.col("children_cores").fill_null(0).sum().over("job", "node")
    fullest = pl.when(on_node == on_node.max().over("job")).then(pl.col("node")).min().over("job")
    first = (pl.col("node") == fullest).fill_null(True)
    told = [pl.when("_first").then(pl.col(name)).alias(name) for name in ("children", "children_cores")]
    return mine.with_columns(_first=first).sort("_first", descending=True, maintain_order=True).with_columns(told).drop("_first")
