"""Whether a GPU's memory in use goes on growing, and when it would be full."""

from itertools import pairwise
from typing import Final

import polars as pl

RISES_FOR_S: Final = 8.0
"""Memory that breathes with each step falls back sooner; a leak in a recording's loop after 10 s and more."""
RISING: Final = 0.3
"""The share of samples in which memory in use grew, from which on its longest stretch is looked for."""


def aggregates() -> list[pl.Expr]:
    """What `of_window` needs of each GPU's samples, in time order."""
    return [
        pl.col("mem_used_bytes").min().alias("_mem_least"),
        pl.col("mem_used_bytes").tail((pl.len() // 4).clip(3)).first().alias("_mem_before"),
        *[_quarter(n).alias(f"_mem_q{n}") for n in range(4)],
        (pl.col("mem_used_bytes").diff() > 0).mean().alias("mem_rising_share"),
        (pl.col("mem_used_bytes").diff() < 0).sum().alias("_mem_falls"),
    ]


def _quarter(number: int) -> pl.Expr:
    size = pl.len() // 4
    return pl.col("mem_used_bytes").slice(number * size, size).median()


def rises(samples: pl.DataFrame, gpus: pl.DataFrame) -> pl.DataFrame:
    """`gpu`, `_rise_bytes`, `_rise_s` of the stretch without a fall in which memory in use grew most.

    Of those of `gpus`, which has the aggregates, whose memory rises at all: in most of a fleet it stands.
    """
    rising = gpus.filter(pl.col("mem_rising_share") >= RISING).get_column("gpu")
    # Samples are in order of GPU and time: a stretch ends where memory falls or the GPU is another.
    ends = (pl.col("gpu") != pl.col("gpu").shift(1)) | (pl.col("mem_used_bytes").diff() < 0)
    stretches = (
        samples.lazy()
        .select("gpu", "t", "mem_used_bytes")
        .filter(pl.col("gpu").is_in(rising.implode()))
        .drop_nulls()
        .with_columns(stretch=ends.fill_null(False).cum_sum().set_sorted())
        .group_by("stretch", maintain_order=True)
        .agg(
            pl.col("gpu").first(),
            (pl.col("mem_used_bytes").last() - pl.col("mem_used_bytes").first()).alias("_rise_bytes"),
            (pl.col("t").last() - pl.col("t").first()).alias("_rise_s"),
        )
    )
    newest_first = pl.col("_rise_bytes", "_rise_s").reverse()
    most = pl.col("_rise_bytes").reverse().arg_max()
    return stretches.group_by("gpu", maintain_order=True).agg(newest_first.get(most)).collect()


def of_window(gpu: pl.DataFrame) -> pl.DataFrame:
    """`gpu` with `mem_growth_*`, `mem_fills_s` and `seconds_to_full` in place of what they were made of."""
    length = pl.col("until_t") - pl.col("from_t")
    total = pl.col("mem_total_bytes")
    quarters = [pl.col(f"_mem_q{n}") for n in range(4)]
    steps = [b - a for a, b in pairwise(quarters)]
    mean_step = (quarters[3] - quarters[0]) / 3
    gpu = gpu.with_columns(
        # Growth that goes on at an even pace: each of three steps between the quarters' medians is at least half the mean
        # step; or it goes on rising for long stretches between rare falls, as in a window over a recording's loop.
        _even=pl.all_horizontal([step >= 0.5 * mean_step for step in steps]) & (mean_step > 0),
        _saws=(pl.col("mem_rising_share") >= RISING) & (length / pl.col("_mem_falls").clip(1) >= RISES_FOR_S),
    )
    # What was really gained: over the window, or in the longest of the stretches, never their sum.
    spans = (pl.col("samples") - 1) / (3 * (pl.col("samples") // 4)).clip(1)
    grown = pl.min_horizontal((quarters[3] - quarters[0]) * spans, pl.col("mem_used_max_bytes") - pl.col("_mem_least"))
    gpu = gpu.with_columns(
        mem_growth_bytes=pl.when("_even")
        .then(grown)
        .when("_saws")
        .then("_rise_bytes")
        .otherwise(pl.when(pl.col("mem_used_max_bytes").is_not_null()).then(0.0)),
        mem_growth_s=pl.when("_even").then(length).when("_saws").then("_rise_s"),
        _still=pl.col("_even") & (pl.col("mem_used_last_bytes") > pl.col("_mem_before")),
    )
    gpu = gpu.with_columns(
        mem_growth_bytes_per_s=pl.when(pl.col("mem_growth_s") > 0)
        .then(pl.col("mem_growth_bytes") / pl.col("mem_growth_s"))
        .otherwise(pl.when(pl.col("mem_growth_bytes").is_not_null()).then(0.0)),
    ).with_columns(
        # at that pace, from what is in use now
        mem_fills_s=pl.when(pl.col("mem_growth_bytes_per_s") > 0).then(
            (total - pl.col("mem_used_last_bytes")).clip(0) / pl.col("mem_growth_bytes_per_s")
        ),
    )
    return gpu.with_columns(seconds_to_full=pl.when("_still").then("mem_fills_s")).drop(
        *[f"_mem_q{n}" for n in range(4)], "_mem_falls", "_mem_least", "_mem_before", "_rise_bytes",
        "_rise_s", "_even", "_saws", "_still",
    )  # fmt: skip
