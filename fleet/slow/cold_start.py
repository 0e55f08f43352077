"""How slow an engine's first requests were after its newest start, against what followed."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from fleet.inventory.models import Engine, Process
from fleet.store import clock

LATELY: Final = timedelta(days=1)
FIRST_REQUESTS: Final = 20
STEADY_S: Final = 600
"""So long after the first requests is what followed."""
READ_S: Final = 3600
"""Engines that serve nothing for so long after their start are not looked at further."""
_FINISHED: Final = "requests_finished_total"


def of_engines(at: datetime, engines: Collection[Engine]) -> dict[int, float]:
    """`first_requests_ratio` of the engines that started within a day: the slowest mean time to the first token while their first
    twenty requests ended, over the median of the ten minutes after. Left out where either is not known yet. StoreError.
    """
    found: dict[int, float] = {}
    for pk, start in _starts(at, engines).items():
        first = int(start.timestamp())
        rows = clock.window("engine", first, min(first + READ_S, int(at.timestamp())), [pk], ["ttft_mean_s", _FINISHED])
        ratio = _ratio(rows.sort("ts"))
        if ratio is not None:
            found[pk] = ratio
    return found


def _starts(at: datetime, engines: Collection[Engine]) -> Mapping[int, datetime]:
    """When each engine started, of those that did lately: by its process, where its agent told of that, else when it was first seen."""
    rows = Process.objects.filter(node__in={engine.node_id for engine in engines}, first_seen_at__gt=at - LATELY)
    begun = {
        (node, pid): first for node, pid, first in rows.order_by("first_seen_at").values_list("node_id", "pid", "first_seen_at")
    }
    starts = {
        engine.pk: begun.get((engine.node_id, engine.pid), engine.first_seen_at) if engine.pid else engine.first_seen_at
        for engine in engines
    }
    return {pk: start for pk, start in starts.items() if at - LATELY < start <= at}


def _ratio(rows: pl.DataFrame) -> float | None:
    known = rows.filter(pl.col(_FINISHED).is_not_null())
    if known.is_empty():
        return None
    first = known[_FINISHED][0]
    # A counter that begins above zero is an engine that served before it was read.
    ended = known.filter(pl.col(_FINISHED) >= FIRST_REQUESTS)
    if first >= FIRST_REQUESTS or ended.is_empty():
        return None
    until = int(ended["ts"][0])
    early = rows.filter(pl.col("ts") <= until)["ttft_mean_s"].max()
    after = rows.filter(pl.col("ts").is_between(until, until + STEADY_S, closed="right"))
    is_over = rows["ts"][-1] >= until + STEADY_S
    steady = after["ttft_mean_s"].median()
    return early / steady if is_over and isinstance(early, float) and isinstance(steady, float) and steady > 0 else None
