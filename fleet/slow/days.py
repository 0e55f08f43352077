"""Means over days, of the store's roll-ups of an hour: a day of GPUs and of the jobs on them, a week of nodes.

`day_hours` says how much of the last 24 hours is known. The newest hour is missing for some minutes, until it is rolled up.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import polars as pl

from fleet.slow.models import JobRun
from fleet.slow.node_facts import Card
from fleet.store.hourly import hours
from fleet.store.series import store

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
WEEK_S: Final = 7 * DAY_S
POWER_CAP_BIT: Final = 2
"""Of clocks_event_reasons: 0x4, the software power cap."""
SATURATED: Final = 0.9
"""Mean share of the cores that are busy in an hour from which its CPU counts as saturated."""
ENOUGH_CARDS: Final = 10
"""Of one model; of fewer the 99th percentile is the highest alone."""
_MEANS: Final = {"day_sm_active": "sm_active", "day_dram_active": "dram_active", "day_tensor_active": "tensor_active"}
_ECC: Final = "ecc_corrected_volatile_total"
_GPU: Final = (*_MEANS.values(), "power_w", "gr_engine_active", "gpu_util_pct", "clocks_event_reasons", "energy_j_total", _ECC)


def of_gpus(at: datetime, cards: Iterable[Card], intervals: Mapping[int, float]) -> pl.DataFrame | None:
    """Hours of GPUs (`gpu`, `ts`) as `days` and `jobs` add them up; None where the store has no hours at hand.

    `intervals` has the seconds between two samples by node.
    """
    end = _hour(at)
    found = hours(store(), "gpu", end - DAY_S, end, _GPU)
    if found is None:
        return None
    facts = pl.DataFrame(
        [
            (card.pk, card.model, card.power_limit_w if card.power_scope != "module" else None, intervals.get(card.node, 1.0))
            for card in cards
        ],
        schema={"gpu": pl.Int64, "model": pl.String, "limit": pl.Float64, "interval": pl.Float64},
        orient="row",
    )
    hour = found.rename({"entity": "gpu"}).join(facts, on="gpu", maintain_order="left")
    counts = pl.max_horizontal(f"{name}_n" for name in ("power_w", "gr_engine_active", "gpu_util_pct"))
    before = pl.col(_ECC).shift(1).over("gpu")
    between = pl.col(f"{_ECC}_min") - before  # a counter's lowest is its first, unless it began anew
    return hour.with_columns(
        hours=(counts * pl.col("interval") / HOUR_S).clip(0, 1),
        idle=1 - pl.coalesce(pl.col("gr_engine_active"), pl.col("gpu_util_pct") / 100),
        idle_n=pl.coalesce(pl.when(pl.col("gr_engine_active_n") > 0).then("gr_engine_active_n"), "gpu_util_pct_n"),
        cap=pl.col("clocks_event_reasons_shares").arr.get(POWER_CAP_BIT),
        joules=pl.coalesce(
            pl.when(pl.col("energy_j_total_n") > 1).then("energy_j_total_grown"),
            pl.col("power_w") * pl.col("power_w_n") * pl.col("interval"),
        ),
        corrected=pl.col(f"{_ECC}_grown") + pl.when(between > 0).then(between).otherwise(0),
    )


def days(hour: pl.DataFrame) -> pl.DataFrame:
    """The features of a day by GPU, with corrected errors beside those of the fleet's cards of the model."""
    gpu = hour.group_by("gpu", maintain_order=True).agg(
        pl.col("hours").sum().alias("day_hours"),
        *_figures(),
        pl.when(pl.col("corrected").is_not_null().any())
        .then(pl.col("corrected").sum())
        .cast(pl.Float64)
        .alias("ecc_corrected_day"),
        pl.col("model").first(),
    )
    of_model = gpu.group_by("model").agg(
        pl.when(pl.col("ecc_corrected_day").count() >= ENOUGH_CARDS)
        .then(pl.col("ecc_corrected_day").quantile(0.99, "linear"))
        .alias("ecc_corrected_day_p99")
    )
    return gpu.join(of_model, on="model", maintain_order="left").drop("model")


def of_jobs(hour: pl.DataFrame, runs: Iterable[JobRun]) -> pl.DataFrame:
    """The features of a day by job: of the whole hours since its run began, over its GPUs."""
    members = pl.DataFrame(
        [(run.job, gpu, run.first_seen.timestamp(), len(run.gpu_ids)) for run in runs for gpu in run.gpu_ids],
        schema={"job": pl.String, "gpu": pl.Int64, "since": pl.Float64, "cards": pl.Int64},
        orient="row",
    )
    mine = members.join(hour, on="gpu").filter(pl.col("ts") >= pl.col("since"))
    job = mine.group_by("job", maintain_order=True).agg(
        (pl.col("hours").sum() / pl.col("cards").first()).alias("day_hours"), *_figures()
    )
    return job.with_columns(idle_share_day=pl.col("day_idle_share"))


def of_nodes(at: datetime, cores: Mapping[int, int | None], intervals: Mapping[int, float]) -> pl.DataFrame | None:
    """By node the share of a week's hours with a saturated CPU, and how long a disk request usually takes."""
    end = _hour(at)
    found = hours(store(), "host", end - WEEK_S, end, ("cpu_busy_cores", "disk_await_s"))
    if found is None:
        return None
    facts = pl.DataFrame(
        [(pk, number, intervals.get(pk, 1.0)) for pk, number in cores.items()],
        schema={"node": pl.Int64, "cores": pl.Int64, "interval": pl.Float64},
        orient="row",
    )
    known = pl.col("cpu_busy_cores_n") * pl.col("interval") / HOUR_S
    host = found.rename({"entity": "node"}).join(facts, on="node", maintain_order="left")
    return host.group_by("node", maintain_order=True).agg(
        known.filter(pl.col("ts") >= end - DAY_S).clip(0, 1).sum().alias("day_hours"),
        (pl.col("cpu_busy_cores") / pl.col("cores") >= SATURATED).mean().alias("day_cpu_saturated_share"),
        pl.col("disk_await_s").median().alias("base_disk_await_s"),
    )


def _figures() -> list[pl.Expr]:
    return [
        (pl.col("power_w") / pl.col("limit")).median().alias("day_power_share"),
        *[_weighted(pl.col(metric), pl.col(f"{metric}_n")).alias(name) for name, metric in _MEANS.items()],
        _weighted(pl.col("idle"), pl.col("idle_n")).alias("day_idle_share"),
        pl.when(pl.col("joules").is_not_null().any()).then(pl.col("joules").sum()).alias("day_energy_j"),
        _weighted(pl.col("cap"), pl.col("clocks_event_reasons_n")).alias("day_cap_share"),
    ]


def _weighted(value: pl.Expr, count: pl.Expr) -> pl.Expr:
    known = count.filter(value.is_not_null()).sum()
    return pl.when(known > 0).then((value * count).sum() / known)


def _hour(at: datetime) -> int:
    return int(at.timestamp()) // HOUR_S * HOUR_S
