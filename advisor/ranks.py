"""What the processes of a job add to its row: their CPU, input and memory, and the steps that they report.

Of ranks that work in step the slowest tells: shares are those of the worst rank, throughput is the sum over all.
"""

from typing import Final

import polars as pl

from advisor.folds import rate
from advisor.samples import CONTEXT_BYTES, known_sum

GONE_S: Final = 90.0
"""A process that was not read for so long before the end of the window does not count: it was of a run before."""
TURNED_OVER: Final = 1
"""Times that all loader processes were replaced from which a gap between steps is the end of an epoch."""


def of_ranks(process: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """One row a process and job: columns `job`, `node`, `pid`, `gpus`, and what is folded of it, once however many GPUs it holds.

    `process` is a merged partial's; `facts` has `gpu`, `node` and `job` of every GPU.
    """
    held = process.join(facts.select("gpu", "node", "job"), on="gpu").filter(pl.col("job").is_not_null())
    held = held.filter(pl.col("until_t") >= pl.col("until_t").max().over("node") - GONE_S)
    contexts = (pl.col("gpu_mem_bytes|mean").fill_null(0) >= CONTEXT_BYTES).sum()
    first = [name for name in process.columns if name not in ("gpu", "pid", "gpu_mem_bytes|mean")]
    return held.group_by("job", "node", "pid", maintain_order=True).agg(
        contexts.cast(pl.Int64).alias("gpus"), *[pl.col(name).first() for name in first]
    )


def of_jobs(ranks: pl.DataFrame) -> pl.DataFrame:
    """One row a job, from `of_ranks`."""

    def worst(expr: pl.Expr) -> pl.Expr:
        return expr.max()

    minutes = (pl.col("until_t") - pl.col("from_t")) / 60
    steps = pl.col("steps_total|growth")
    of_step = {name: pl.col(f"{name}|mean") / pl.col("step_time_s|mean") for name in ("data_wait_s", "h2d_s", "comm_s")}
    gap = pl.when(pl.col("worker_turnovers_total|growth") >= TURNED_OVER).then(pl.col("step_time_max_s|max"))
    peak, held = pl.col("alloc_peak_bytes|max"), pl.col("reserved_peak_bytes|max")
    # a loss that hardly moves has no spread to speak of: a thousandth of it stands in
    spread = pl.max_horizontal(pl.col("loss|spread"), 1e-3 * pl.col("loss|median").abs(), pl.lit(1e-9))
    jump = (pl.col("loss|last") - pl.col("loss|median")) / spread
    return ranks.group_by("job", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("ranks"),
        pl.col("node").n_unique().cast(pl.Int64).alias("nodes"),
        pl.col("node").unique_counts().max().cast(pl.Int64).alias("ranks_on_node"),
        pl.col("gpus").max().alias("gpus_per_process_max"),
        (worst(pl.col("main_thread_cpu_pct|mean")) / 100).alias("main_thread_share"),
        known_sum(pl.col("threads|mean")).alias("threads"),
        known_sum(pl.col("rss_bytes|mean")).alias("rss_bytes"),
        known_sum(pl.col("dataloader_workers|median")).alias("dataloader_workers"),
        pl.col("dataloader_workers|median").max().alias("workers_per_rank"),
        worst(rate("io_delay_s_total")).alias("io_delay_share"),
        known_sum(rate("read_bytes_total")).alias("storage_read_bytes_per_s"),
        known_sum(rate("involuntary_switches_total")).alias("involuntary_switches_per_s"),
        worst(
            pl.when(pl.col("cpu_periods_total|growth") > 0).then(
                pl.col("cpu_throttled_periods_total|growth") / pl.col("cpu_periods_total|growth")
            )
        ).alias("cpu_throttled_share"),
        pl.col("cpu_quota_cores|last").min().alias("cpu_quota_cores"),
        pl.min_horizontal(pl.col("cpus_allowed|last").min(), pl.col("cpu_quota_cores|last").min()).alias("cores_allowed"),
        pl.col("shm_size_bytes|last").min().alias("shm_size_bytes"),
        worst(pl.col("shm_used_bytes|last") / pl.col("shm_size_bytes|last")).alias("shm_used_share"),
        pl.col("numa_local|mean").min().alias("numa_local_share"),
        worst(pl.col("slow_worker_ratio|mean")).alias("slow_worker_ratio"),
        known_sum(pl.sum_horizontal("cpu_pct|mean", "children_cpu_pct|mean") / 100).alias("cpu_cores_total_used"),
        # steps
        steps.max().alias("steps"),
        pl.col("steps_total|last").max().alias("steps_total"),
        worst(pl.col("step_time_s|median")).alias("step_time_s"),
        worst(pl.col("step_time_s|p99") / pl.col("step_time_s|median")).alias("step_time_p99_ratio"),
        worst(pl.col("step_time_max_s|max") / pl.col("step_time_s|median")).alias("step_time_max_ratio"),
        worst(of_step["data_wait_s"]).clip(0, 1).alias("data_wait_share"),
        worst(of_step["h2d_s"]).clip(0, 1).alias("h2d_share"),
        worst(of_step["comm_s"]).clip(0, 1).alias("comm_share"),
        known_sum(pl.col("samples_per_s|mean")).alias("samples_per_s"),
        known_sum(pl.col("tokens_per_s|mean")).alias("tokens_per_s"),
        pl.col("since_step_s|last").min().alias("since_step_s"),
        worst(pl.when(steps > 0).then(pl.col("slow_steps_total|growth") / steps)).clip(0, 1).alias("slow_step_share"),
        pl.col("loss|last").drop_nulls().first().alias("loss"),
        worst(jump).alias("loss_jump_mads"),
        pl.col("loss_still_steps|last").max().alias("loss_still_steps"),
        pl.col("loss_not_finite_total|growth").max().alias("loss_not_finite_new"),
        pl.col("loss_not_finite_total|last").max().alias("loss_not_finite_total"),
        pl.col("loss_scale|last").min().alias("loss_scale"),
        worst((pl.col("loss_scale|max") / pl.col("loss_scale|last").clip(1e-30)).log(2)).alias("loss_scale_halvings"),
        pl.col("grad_norm|last").max().alias("grad_norm"),
        pl.col("grad_norm_spikes_total|growth").max().alias("grad_norm_spikes"),
        # memory, as PyTorch's allocator counts it
        peak.max().alias("alloc_peak_bytes"),
        held.max().alias("reserved_peak_bytes"),
        (held - peak).max().alias("reserved_unused_bytes"),
        worst(pl.when(steps > 0).then(pl.col("alloc_retries_total|growth") / steps * 100)).alias("alloc_retries_per_100_steps"),
        pl.col("ooms_total|last").max().alias("ooms"),
        # checkpoints and epochs
        pl.col("checkpoint_save_s|last").max().alias("checkpoint_save_s"),
        pl.col("checkpoints_total|last").max().alias("checkpoints_total"),
        pl.col("since_checkpoint_s|last").min().alias("since_checkpoint_s"),
        pl.col("checkpoint_bytes|last").max().alias("checkpoint_bytes"),
        (pl.col("checkpoint_bytes|last") < 0.8 * pl.col("checkpoint_bytes|max"))
        .any(ignore_nulls=False)
        .alias("checkpoint_shrunk"),
        worst(gap).alias("epoch_gap_s"),
        worst(pl.when(minutes > 0).then(gap * pl.col("worker_turnovers_total|growth") / minutes / 60))
        .clip(0, 1)
        .alias("step_gap_share"),
    )


def of_nodes(ranks: pl.DataFrame) -> pl.DataFrame:
    """One row a node: `ranks`, `workers`, `jobs` and `worker_cores_total` of the processes that hold its GPUs."""
    return ranks.group_by("node", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("ranks"),
        pl.col("job").n_unique().cast(pl.Int64).alias("jobs"),
        known_sum(pl.col("dataloader_workers|median")).alias("workers"),
        (known_sum(pl.col("children_cpu_pct|mean")) / 100).alias("worker_cores_total"),
    )
