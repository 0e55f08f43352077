"""What is known of serving engines beyond the last minutes: their age, their restarts, their usual latency and load."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final

import polars as pl

from fleet.inventory.models import STILL_THERE, Engine, Process
from fleet.slow.summary import MAD_TO_SIGMA
from fleet.store import clock
from fleet.store.hourly import hours
from fleet.store.series import store

WEEK: Final = timedelta(days=7)
BASE_S: Final = 14 * 86_400
HOUR_S: Final = 3600
NOW_S: Final = 300
ONE_START: Final = timedelta(minutes=5)
"""Processes of an engine that begin within so much of each other are one start."""
LATENCIES: Final = {"base_ttft_s": "ttft_mean_s", "base_tpot_s": "tpot_mean_s", "base_e2e_s": "e2e_mean_s"}
_FINISHED: Final = "requests_finished_total"
_TOKENS: Final = "generation_tokens_total"


def there(at: datetime) -> list[Engine]:
    """The engines that were seen lately."""
    return list(Engine.objects.filter(last_seen_at__gte=at - STILL_THERE).select_related("node").order_by("pk"))


def of_engines(at: datetime, engines: Collection[Engine]) -> dict[int, dict[str, Any]]:
    """Age and restarts of each.

    Restarts are starts of processes of its kind on its node within a week, but for the first that is known; None where the node
    has several engines of the kind, as nobody tells whose process it was, and where none of its processes told its kind.
    """
    starts: dict[tuple[int, str], list[datetime]] = defaultdict(list)
    nodes = {engine.node_id for engine in engines}
    rows = Process.objects.filter(node__in=nodes, last_seen_at__gt=at - WEEK).order_by()
    for node, labels, first in rows.values_list("node_id", "labels", "first_seen_at"):
        if kind := labels.get("engine"):
            starts[node, kind].append(first)
    kinds = [(engine.node_id, engine.kind) for engine in engines]
    found: dict[int, dict[str, Any]] = {}
    for engine in engines:
        place = engine.node_id, engine.kind
        known = starts.get(place) if kinds.count(place) == 1 else None
        found[engine.pk] = {
            "age_s": max((at - engine.first_seen_at).total_seconds(), 0.0),
            "restarts_7d": None if known is None else _restarts(at, known),
        }
    return found


def _restarts(at: datetime, begun: Iterable[datetime]) -> int:
    starts: list[datetime] = []
    last = None
    for first in sorted(begun):
        if last is None or first - last > ONE_START:
            starts.append(first)
        last = first
    return sum(first > at - WEEK for first in starts[1:])


def finished_per_s(at: datetime, engines: Iterable[Engine]) -> dict[int, float]:
    """Requests that each finished a second over the last minutes; left out where the counter was not read twice. StoreError."""
    end = int(at.timestamp())
    rows = clock.window("engine", end - NOW_S, end, [engine.pk for engine in engines], [_FINISHED])
    known = rows.filter(pl.col(_FINISHED).is_not_null()).sort("entity", "ts")
    step = pl.col(_FINISHED).diff()
    rates = known.group_by("entity").agg(
        # A fall is a new beginning from zero.
        pl.when(step < 0).then(pl.col(_FINISHED)).otherwise(step).sum().alias("grown"),
        (pl.col("ts").max() - pl.col("ts").min()).alias("span"),
    ).filter(pl.col("span") > 0)  # fmt: skip
    return dict(rates.select("entity", pl.col("grown") / pl.col("span")).iter_rows())


def usual(at: datetime) -> pl.DataFrame | None:
    """By engine (`service`) its medians over the hours of 14 days in which it finished requests; None where the store has no hours at hand.

    `base_mad_s` is of e2e: 1.4826 times the median absolute deviation. `base_days`: days that these hours are, 24 a day.
    """
    end = int(at.timestamp()) // HOUR_S * HOUR_S
    found = hours(store(), "engine", end - BASE_S, end, [*LATENCIES.values(), _FINISHED, _TOKENS])
    if found is None:
        return None
    served = found.filter(pl.col(f"{_FINISHED}_grown") > 0)
    e2e = pl.col("e2e_mean_s")
    return served.group_by(pl.col("entity").alias("service"), maintain_order=True).agg(
        *[pl.col(metric).median().alias(name) for name, metric in LATENCIES.items()],
        (MAD_TO_SIGMA * (e2e - e2e.median()).abs().median()).alias("base_mad_s"),
        (pl.len() / 24).alias("base_days"),
        (pl.col(f"{_TOKENS}_grown").sum() / pl.col(f"{_FINISHED}_grown").filter(pl.col(f"{_TOKENS}_grown").is_not_null()).sum())
        .fill_nan(None)
        .alias("base_tokens_per_request"),
        (pl.col(f"{_FINISHED}_grown").median() / HOUR_S).alias("base_finished_per_s"),
    )
