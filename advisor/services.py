"""One row a serving engine: what it says of its requests, beside what its GPUs do."""

from typing import Final

import polars as pl

from advisor.folds import rate
from advisor.partial import correlation

ENGINES: Final = {"service": pl.Int64, "node": pl.Int64, "kind": pl.String, "model": pl.String}
"""Columns of `engines`."""
SERVES: Final = {"service": pl.Int64, "gpu": pl.Int64, "pid": pl.Int64}
"""Columns of `serves`: which processes on which GPUs work for a service."""
_GPU_MEANS: Final = (
    "busy", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "power_share", "nvlink_share", "sm_clock_cv",
    "hw_slowdown_share",
)  # fmt: skip
_GPU_FIRST: Final = ("gpu_model", "compute_capability", "sm", "has_nvlink", "mem_total_bytes", "mig")
_NODE: Final = (
    "psi_cpu_some_pct", "psi_io_some_pct", "other_cores", "disk_read_bytes_per_s", "disk_write_bytes_per_s", "cores", "cpu_busy_share",
)  # fmt: skip


def of_services(
    engine: pl.DataFrame, engines: pl.DataFrame, serves: pl.DataFrame, gpu: pl.DataFrame, node: pl.DataFrame
) -> pl.DataFrame:
    """One row a service of `engines` that was read in the window; `gpu`, `node`: the features' frames."""
    rows = engines.join(_told(engine), on="service")
    cards = gpu.with_columns(mem_free=pl.col("mem_total_bytes") - pl.col("mem_used_max_bytes"))
    held = (
        serves.select("service", "gpu")
        .unique(maintain_order=True)
        .join(cards, on="gpu")
        .group_by("service", maintain_order=True)
        .agg(
            pl.col("gpu").alias("members"),
            pl.len().cast(pl.Int64).alias("gpus"),
            *[pl.col(name).mean() for name in _GPU_MEANS],
            *[pl.col(name).first() for name in _GPU_FIRST],
            pl.col("mem_used_share").max(),
            pl.col("mem_free").min().alias("mem_free_min_bytes"),
            pl.col("tenants").max(),
            pl.col("persistence_mode").all(ignore_nulls=False).alias("persistence_mode"),
            pl.col("evaluated").all().alias("_evaluated"),
        )
    )
    rows = rows.join(held, on="service", how="left").join(node.select("node", *_NODE), on="node", how="left")
    return rows.with_columns(
        evaluated=pl.col("_evaluated").fill_null(True), free=False, members=pl.col("members").fill_null([])
    ).drop("_evaluated")


def _told(engine: pl.DataFrame) -> pl.DataFrame:
    """What the engines' own counters say, from a merged partial."""
    finished = pl.col("requests_finished_total|growth")
    some = pl.when(finished > 0)
    queries = pl.col("prefix_cache_queries_total|growth")
    return engine.select(
        "service",
        window_s=pl.col("until_t") - pl.col("from_t"),
        samples=pl.col("samples"),
        requests_running=pl.col("requests_running|mean"),
        requests_waiting=pl.col("requests_waiting|mean"),
        requests_waiting_growth_per_min=pl.col("requests_waiting|slope"),
        waiting_share=pl.col("waiting|mean"),
        kv_cache_used=pl.col("kv_cache_used|mean"),
        kv_cache_used_max=pl.col("kv_cache_used|max"),
        finished_per_s=rate("requests_finished_total"),
        prompt_tokens_per_s=rate("prompt_tokens_total"),
        generation_tokens_per_s=rate("generation_tokens_total"),
        prompt_tokens_mean=some.then(pl.col("prompt_tokens_total|growth") / finished),
        tokens_per_request=some.then(
            pl.sum_horizontal("prompt_tokens_total|growth", "generation_tokens_total|growth") / finished
        ),
        preemptions_per_s=rate("preemptions_total"),
        preemptions_per_request=some.then(pl.col("preemptions_total|growth") / finished),
        prefix_hit_share=pl.when(queries > 0).then(pl.col("prefix_cache_hits_total|growth") / queries).clip(0, 1),
        ttft_s=pl.col("ttft_mean_s|mean"),
        ttft_p95_s=pl.col("ttft_p95_s|median"),
        tpot_s=pl.col("tpot_mean_s|mean"),
        tpot_p95_s=pl.col("tpot_p95_s|median"),
        queue_s=pl.col("queue_mean_s|mean"),
        e2e_s=pl.col("e2e_mean_s|mean"),
        e2e_p95_ratio=pl.col("e2e_mean_s|p99") / pl.col("e2e_mean_s|median"),
        batch_size=pl.col("batch_size_mean|mean"),
        executions_per_s=rate("requests_finished_total") / pl.col("batch_size_mean|mean"),
        latency_clock_corr=-correlation("latency", "clock", "latency_clock", "latency_squared", "clock_squared"),
    )


_KNOWN_KV: Final = 0.05  # of a cache that is all but empty nobody can say what a sequence takes
_BILLIONS: Final = r"(?i)(?:^|[-_])(\d{1,4}(?:\.\d{1,2})?)B(?:$|[-_.])"
"""Parameters as a model's name tells them: Llama-3.1-8B, Qwen3-0.6B, Mixtral-8x7B not."""
_BYTES_EACH: Final = {"fp8": 1.0, "int8": 1.0, "w8a8": 1.0, "compressed-tensors": 1.0, "awq": 0.55, "gptq": 0.55, "int4": 0.55, "nvfp4": 0.55,
                      "bitsandbytes": 0.55, "mxfp4": 0.55}  # fmt: skip


def cut(service: pl.DataFrame) -> pl.DataFrame:
    """`service` with how its model is cut, `tp` and `max_num_seqs`, and `weights_bytes` where its name and its flags tell them."""
    have = service.schema
    flags = {"flag_gpu_memory_utilization": pl.Float64, "flag_mem_fraction_static": pl.Float64, "flag_tensor_parallel_size": pl.Float64, "flag_max_num_seqs": pl.Float64, "flag_max_running_requests": pl.Float64,
             "flag_quantization": pl.String}  # fmt: skip
    service = service.with_columns(pl.lit(None, kind).alias(name) for name, kind in flags.items() if name not in have)
    params = pl.col("model").str.extract(_BILLIONS).cast(pl.Float64, strict=False) * 1e9
    each = pl.col("flag_quantization").replace_strict(_BYTES_EACH, default=None, return_dtype=pl.Float64)
    return service.with_columns(
        tp=pl.col("flag_tensor_parallel_size"),
        max_num_seqs=pl.coalesce("flag_max_num_seqs", "flag_max_running_requests"),
        params=params,
        memory_fraction=pl.coalesce("flag_gpu_memory_utilization", "flag_mem_fraction_static"),
        tp_half=(pl.col("flag_tensor_parallel_size") / 2).floor().cast(pl.Int64),
        # as many as run now, at the share of the cache that they hold, up to nine tenths of it
        seqs_that_fit=pl.when(pl.col("kv_cache_used") >= _KNOWN_KV)
        .then((0.9 * pl.col("requests_running") / pl.col("kv_cache_used")).floor())
        .clip(1, None)
        .cast(pl.Int64),
        weights_bytes=params * pl.when(pl.col("flag_quantization").is_null()).then(2.0).otherwise(each),
    )
