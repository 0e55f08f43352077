"""What GPUs of each model draw at this site, idle and busy, learned from hours.

Of each card the median of its hours in which it did nothing, and of those in which its engine always worked; of a model's cards the median
of a day; of its days the median again. A card that is read wrongly, or a day in a hot room, moves neither.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import Any, Final

import polars as pl

from fleet.slow.frames import keep_rows, kept_rows

IDLE: Final = 0.99
"""Share of an hour without work from which it counts as idle."""
BUSY: Final = 0.05
"""Share of it up to which it counts as busy."""
ENOUGH_GPUS: Final = 3
ENOUGH_DAYS: Final = 3
DAYS: Final = 14
_PART: Final = "power"
_SCHEMA: Final = pl.Schema(
    {
        "model": pl.String,
        "day": pl.Int64,
        "idle_w": pl.Float64,
        "idle_gpus": pl.Int64,
        "busy_w": pl.Float64,
        "busy_gpus": pl.Int64,
    }
)


@dataclass(frozen=True, slots=True)
class Usual:
    """What a card draws in one state, on how many GPUs (on the middle one of the days) and days it rests; None where these are too few.

    `low` and `high`: the bounds of the middle half of the days.
    """

    watts: float | None
    gpus: int
    days: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Floor:
    """Idle and busy."""

    idle: Usual
    busy: Usual


def learn(at: datetime, hour: pl.DataFrame) -> None:
    """Take in the last 24 hours (days.of_gpus) as today; the same day again replaces it."""
    today = _day(at)
    kept = kept_rows("gpu", _PART, _SCHEMA)
    new = _today(hour, today)
    rows = pl.concat([kept.filter(pl.col("day").is_between(today - DAYS + 1, today - 1)), new])
    keep_rows("gpu", _PART, at, rows)


def floors(at: datetime) -> dict[str, Floor]:
    """By model what is known of the last DAYS days."""
    rows = kept_rows("gpu", _PART, _SCHEMA).filter(pl.col("day").is_between(_day(at) - DAYS + 1, _day(at)))
    found: dict[str, Floor] = {}
    for (model,), days in rows.group_by(["model"], maintain_order=True):
        found[str(model)] = Floor(_usual(days, "idle"), _usual(days, "busy"))
    return found


def features(floor: Floor | None) -> dict[str, Any]:
    """The columns of a GPU's frame."""
    return {"usual_idle_power_w": floor.idle.watts, "usual_busy_power_w": floor.busy.watts} if floor else {}


def _today(hour: pl.DataFrame, day: int) -> pl.DataFrame:
    whole = hour.filter(pl.col("hours") >= 0.5, pl.col("power_w") > 0, pl.col("model").is_not_null())
    card = whole.group_by("model", "gpu").agg(
        pl.col("power_w").filter(pl.col("idle") >= IDLE).median().alias("idle_w"),
        pl.col("power_w").filter(pl.col("idle") <= BUSY).median().alias("busy_w"),
    )
    return card.group_by("model").agg(
        pl.lit(day, pl.Int64).alias("day"),
        pl.col("idle_w").median(),
        pl.col("idle_w").count().cast(pl.Int64).alias("idle_gpus"),
        pl.col("busy_w").median(),
        pl.col("busy_w").count().cast(pl.Int64).alias("busy_gpus"),
    ).select(_SCHEMA.names())  # fmt: skip


def _usual(days: pl.DataFrame, state: str) -> Usual:
    known = days.filter(pl.col(f"{state}_gpus") > 0)
    if known.is_empty():
        return Usual(None, 0, 0)
    gpus = int(median(known[f"{state}_gpus"].to_list()))
    if gpus < ENOUGH_GPUS or known.height < ENOUGH_DAYS:
        return Usual(None, gpus, known.height)
    watts = known[f"{state}_w"].to_list()
    low, middle, high = quantiles(watts, n=4, method="inclusive")
    return Usual(float(middle), gpus, known.height, float(low), float(high))


def _day(at: datetime) -> int:
    return int(at.astimezone(UTC).timestamp()) // 86_400
