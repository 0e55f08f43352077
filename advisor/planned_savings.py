"""What advice may give back, by the planners: the micro-batch that fits (PL-12), the time that saves cost (PL-5), money (PL-6).

Expressions over columns of features, beside planned.py; the test holds them to the planners' own functions. Where what a number
follows from is absent, or there is nothing to suggest, it is null, never 0.
"""

from typing import Final

import polars as pl

from advisor.planners.batch import USABLE
from advisor.planners.checkpoint_interval import GPU_HOURS_PER_FAILURE

MOST_TIMES: Final = 8
"""A micro-batch is not made larger than this many times at once: what the next step takes is measured, not extrapolated."""


def batch_times(mem_used_share: pl.Expr) -> pl.Expr:
    """How many times the micro-batch surely fits, 2 to 8; null where that is not even twice.

    Weights and optimizer do not grow with it, so that nine tenths of the memory over what is used is the least that PL-12 gives.
    """
    times = (USABLE / mem_used_share + 1e-9).floor().clip(upper_bound=MOST_TIMES).cast(pl.Int64)
    return pl.when((mem_used_share > 0) & (times >= 2)).then(times)


def largest_micro_batch(
    first_batch: pl.Expr, first_peak_bytes: pl.Expr, second_batch: pl.Expr, second_peak_bytes: pl.Expr, memory_bytes: pl.Expr
) -> pl.Expr:
    """The largest micro-batch by two measured peaks (PL-12); null where the larger one took no more, or not one sample fits."""
    slope = (second_peak_bytes - first_peak_bytes) / (second_batch - first_batch)
    largest = ((USABLE * memory_bytes - first_peak_bytes) / slope).floor() + first_batch
    return pl.when((second_batch != first_batch) & (slope > 0) & (largest >= 1)).then(largest.cast(pl.Int64))


def mtbf_s(gpus: pl.Expr, gpu_hours_per_failure: float = GPU_HOURS_PER_FAILURE) -> pl.Expr:
    """Mean seconds between failures of a job that needs all its GPUs; give the fleet's own rate where it is known."""
    return pl.when(gpus >= 1).then(gpu_hours_per_failure * 3600 / gpus)


def checkpoint_interval_s(stall_s: pl.Expr, mtbf: pl.Expr) -> pl.Expr:
    """Seconds between saves that cost least (Young); null where no stall was measured."""
    return pl.when((stall_s > 0) & (mtbf > 0)).then((2 * stall_s * mtbf).sqrt())


def checkpoint_overhead(stall_s: pl.Expr, interval_s: pl.Expr, mtbf: pl.Expr) -> pl.Expr:
    """Share of the time that saves every `interval_s`, and work redone after failures, take."""
    return pl.when((stall_s > 0) & (interval_s > 0) & (mtbf > 0)).then(stall_s / interval_s + interval_s / (2 * mtbf))


def checkpoint_recoverable(stall_s: pl.Expr, interval_s: pl.Expr, mtbf: pl.Expr) -> pl.Expr:
    """Share of the time that the best interval gives back against `interval_s`, the one in use; 0 where that is the best."""
    best = checkpoint_interval_s(stall_s, mtbf)
    now = checkpoint_overhead(stall_s, interval_s, mtbf)
    return (now - checkpoint_overhead(stall_s, best, mtbf)).clip(lower_bound=0.0)


def cost(
    gpu_hours: pl.Expr, price_per_gpu_hour: float | None, power_w: pl.Expr | None, tariff_per_kwh: float | None, pue: float = 1.0
) -> pl.Expr:
    """Money that these GPU-hours cost: their price, and their energy at `power_w` a GPU where both power and tariff are known.

    Null where neither a price nor energy is: what nobody priced costs an unknown sum, not nothing.
    """
    parts = []
    if price_per_gpu_hour is not None:
        parts.append(gpu_hours * price_per_gpu_hour)
    if tariff_per_kwh is not None and power_w is not None:
        energy = gpu_hours * power_w / 1000 * pue * tariff_per_kwh
        parts.append(energy.fill_null(0.0) if parts else energy)
    return pl.sum_horizontal(parts, ignore_nulls=False) if parts else pl.lit(None, pl.Float64)
