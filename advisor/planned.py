"""What planners say of a job: how it is cut and what it should be, from what its script or its command line tells and what was measured."""

from typing import Final

import polars as pl

from advisor.planners.cards import CARDS, Card

_HEADROOM: Final = 1.25  # PL-7: loaders that just keep up are late every other time
_NEEDS: Final[dict[str, type[pl.DataType]]] = {
    **dict.fromkeys(
        ("told_params", "told_micro_batch", "flag_micro_batch_size", "flag_per_device_train_batch_size", "told_accumulation",
         "flag_gradient_accumulation_steps", "told_tp", "flag_tensor_model_parallel_size", "flag_tensor_parallel_size", "told_pp",
         "flag_pipeline_model_parallel_size", "flag_pipeline_parallel_size", "flag_zero_stage", "told_microbatches",
         "flag_global_batch_size", "told_vpp", "flag_cpu_offload_gb", "told_flops_per_sample", "tokens_per_s", "samples_per_s", "cores_allowed",
         "checkpoint_save_s", "mtbf_gpu_hours", "data_wait_share", "workers_per_rank", "checkpoints_total", "run_s", "cpu_cores_total_used", "cpu_quota_cores", "step_time_s", "ib_share",
         "net_share", "comm_share", "share_communication", "sm_clock_max_mhz", "power_limit_default_w"),
        pl.Float64,
    ),
    **dict.fromkeys(("told_offload", "flag_bf16", "flag_fp16", "flag_use_distributed_optimizer", "flag_gradient_checkpointing",
                     "flag_recompute_activations"), pl.Boolean),
    **dict.fromkeys(("told_dtype", "flag_dtype", "flag_mixed_precision", "told_sharding", "told_recompute", "flag_recompute_granularity",
                     "gpu_model"), pl.String),
    **dict.fromkeys(("ranks_on_node", "ranks"), pl.Int64),
}  # fmt: skip
READS: Final = frozenset(_NEEDS)
"""The columns that it looks at; words among them are read for it."""
_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "no": None}


def of_jobs(job: pl.DataFrame) -> pl.DataFrame:
    """`job` with `params`, `micro_batch`, `accumulation`, `tp`, `pp`, `dtype`, `sharding`, `recompute`, `offload`, `microbatches`, and of
    the planners `pipeline_bubble`, `pipeline_microbatches`, `workers_needed`, `workers_cap`, `workers_planned`, `checkpoint_interval_s`, `checkpoint_optimum_s`, `mfu`."""
    job = _complete(job)
    job = job.with_columns(
        params=pl.col("told_params"),
        micro_batch=pl.coalesce("told_micro_batch", "flag_micro_batch_size", "flag_per_device_train_batch_size"),
        accumulation=pl.coalesce("told_accumulation", "flag_gradient_accumulation_steps"),
        tp=pl.coalesce("told_tp", "flag_tensor_model_parallel_size", "flag_tensor_parallel_size"),
        pp=pl.coalesce("told_pp", "flag_pipeline_model_parallel_size", "flag_pipeline_parallel_size"),
        dtype=_dtype(),
        sharding=_sharding(),
        recompute=_recompute(),
        offload=pl.coalesce("told_offload", pl.col("flag_cpu_offload_gb") > 0),
    )
    job = job.with_columns(microbatches=pl.coalesce("told_microbatches", _microbatches()))
    job = job.with_columns(pipeline_bubble=_bubble(), pipeline_microbatches=_enough_microbatches())
    cap = (pl.col("cores_allowed").fill_null(pl.col("cores")) / pl.col("ranks_on_node").fill_null(pl.col("gpus"))).floor() - 1
    job = job.with_columns(
        cores_allowed=pl.coalesce("cores_allowed", "cores"),
        workers_cap=cap.clip(1, None).cast(pl.Int64),
        workers_needed=_workers_needed().cast(pl.Int64),
        checkpoint_interval_s=pl.when(pl.col("checkpoints_total") >= 3).then(pl.col("run_s") / pl.col("checkpoints_total")),
        checkpoint_optimum_s=_checkpoint_optimum(),
        mfu=_mfu(),
    )
    used = pl.coalesce("cpu_cores_total_used", pl.col("main_cores") + pl.col("children_cores"))
    return job.with_columns(
        workers_planned=pl.min_horizontal("workers_needed", "workers_cap"),
        checkpoint_steps=(pl.col("checkpoint_optimum_s") / pl.col("step_time_s")).ceil().cast(pl.Int64),
        # what it uses while it is stopped, by half more, and no less than what it is allowed now
        quota_suggested=pl.max_horizontal(1.5 * used, pl.col("cpu_quota_cores") + 1).ceil().clip(1, None).cast(pl.Int64),
        link_share=pl.max_horizontal("ib_share", "net_share"),
        communication_share=pl.max_horizontal("comm_share", "share_communication"),
        clock_92=(0.92 * pl.col("sm_clock_max_mhz")).round().cast(pl.Int64),
        power_85=(0.85 * pl.col("power_limit_default_w")).round().cast(pl.Int64),
    )


def mfu(job: pl.DataFrame) -> pl.Series:
    """Model FLOP utilisation of each job, from 0 to 1 (PL-3), of what is told of it alone; null where something is not known."""
    return _complete(job).with_columns(dtype=_dtype()).select(mfu=_mfu()).to_series()


def _complete(job: pl.DataFrame) -> pl.DataFrame:
    """`job` with all columns of _NEEDS."""
    have = job.schema
    return job.with_columns(
        pl.lit(None, kind).alias(name) if name not in have else pl.col(name).cast(kind, strict=False)
        for name, kind in _NEEDS.items()
    )


def _dtype() -> pl.Expr:
    flag = pl.when("flag_bf16").then(pl.lit("bf16")).when("flag_fp16").then(pl.lit("fp16"))
    word = pl.coalesce("flag_mixed_precision", "flag_dtype")
    return pl.coalesce("told_dtype", flag, word.replace(_DTYPES))


def _sharding() -> pl.Expr:
    stage = pl.when(pl.col("flag_zero_stage") >= 1).then(pl.format("zero{}", pl.col("flag_zero_stage").cast(pl.Int64)))
    return pl.coalesce("told_sharding", stage, pl.when("flag_use_distributed_optimizer").then(pl.lit("zero1")))


def _recompute() -> pl.Expr:
    whole = pl.when("flag_gradient_checkpointing").then(pl.lit("full"))
    return pl.coalesce(
        "told_recompute", "flag_recompute_granularity", whole, pl.when("flag_recompute_activations").then(pl.lit("selective"))
    )


def _microbatches() -> pl.Expr:
    """Of a pipeline: the global batch over what the replicas take at once."""
    replicas = (pl.col("gpus") / (pl.col("tp").fill_null(1) * pl.col("pp"))).clip(1, None)
    return pl.when(pl.col("pp") >= 2).then(pl.col("flag_global_batch_size") / (pl.col("micro_batch") * replicas))


def _bubble() -> pl.Expr:
    """PL-12: the share of a step in which the stages of a pipeline stand still."""
    others = pl.col("pp") - 1
    chunks = pl.col("told_vpp").fill_null(1).clip(1, None)
    return pl.when(pl.col("pp") >= 2).then(others / (chunks * pl.col("microbatches") + others))


def _enough_microbatches() -> pl.Expr:
    """Micro-batches that leave a tenth of bubble: PL-12, solved for them, up to a multiple of the stages."""
    others = pl.col("pp") - 1
    chunks = pl.col("told_vpp").fill_null(1).clip(1, None)
    needed = (others / 0.1 - others) / chunks / pl.col("pp")
    return pl.when(pl.col("pp") >= 2).then(needed.ceil() * pl.col("pp")).cast(pl.Int64)


def _workers_needed() -> pl.Expr:
    """PL-7 of each rank: the cores that prepare input now, were nobody waiting for it, and a quarter more."""
    input_cores = pl.when(pl.col("children") >= 1).then(pl.col("children_cores")).otherwise(pl.col("main_cores"))
    waits = pl.coalesce("data_wait_share", "share_data").clip(0, 0.95)
    return (_HEADROOM * input_cores / pl.col("ranks").fill_null(pl.col("gpus")) / (1 - waits)).ceil().clip(1, None)


def _checkpoint_optimum() -> pl.Expr:
    """PL-5, Daly's: seconds between saves that lose least, from what a save costs and how often GPUs fail."""
    save, between = pl.col("checkpoint_save_s"), pl.col("mtbf_gpu_hours") * 3600 / pl.col("gpus")
    half = save / (2 * between)
    interval = (2 * save * between).sqrt() * (1 + half.sqrt() / 3 + half / 9) - save
    return pl.when((save > 0) & (save < 2 * between)).then(interval)


def _mfu() -> pl.Expr:
    """PL-3: the model's operations a second over the peak of the job's GPUs; null for a card or a format without a checked peak."""
    told = pl.col("told_flops_per_sample") * pl.col("samples_per_s")
    flop_per_s = pl.coalesce(told, 6 * pl.col("told_params") * pl.col("tokens_per_s"))
    peak: pl.Expr = pl.lit(None, pl.Float64)
    for dtype in ("bf16", "fp16", "fp8", "tf32", "fp32"):
        by_model = {
            name: card.dense_flop_per_s[dtype] for card in CARDS for name in names_of(card) if dtype in card.dense_flop_per_s
        }
        of_model = pl.col("gpu_model").replace_strict(by_model, default=None, return_dtype=pl.Float64)
        peak = pl.when(pl.col("dtype") == dtype).then(of_model).otherwise(peak)
    share = flop_per_s / (peak * pl.col("gpus"))
    return pl.when(share <= 1).then(share)  # more than all of it: what was told is wrong


def names_of(card: Card) -> set[str]:
    """What drivers call a card."""
    return {name for name in (card.driver_name, card.name, f"NVIDIA {card.name}") if name}
