"""Reads on the server's clock; every reader of telemetry that asks for a time reads through here.

Rows carry their node's clock, so that a batch that is sent again finds its own row. Node.clock_skew_s says how far that
clock is ahead of the server's; by so much the span asked for and the `ts` that come back are moved. A skew of less than
MIN_SKEW_S is none: estimates tremble, and axes should not.

The calls answer as those of series.py do. `ahead` spares them the query where the caller has asked already.
"""

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

import polars as pl
from django.db.models import Q

from fleet.inventory.models import Engine, Gpu, Node, whole_skew
from fleet.store import held
from fleet.store.series import store
from wire.metrics import Scope

_TOGETHER_S: Final = 600
"""Clocks that are within so much of each other are read together."""
_NEAR_S: Final = 3
"""What is so little ahead of now is now."""

Ahead: TypeAlias = Mapping[int, int]


def ahead(scope: Scope, entities: Collection[int] | None = None) -> dict[int, int]:
    """Seconds by which an entity's clock is ahead of the server's (negative: behind), for those whose clock is off."""
    off = ~Q(clock_skew_s=None) & ~Q(clock_skew_s=0)
    skews = {node: whole_skew(skew) for node, skew in Node.objects.filter(off).values_list("pk", "clock_skew_s")}
    skews = {node: skew for node, skew in skews.items() if skew}
    if scope != "host" and skews:
        things = (Engine if scope == "engine" else Gpu).objects.filter(node__in=skews).values_list("pk", "node_id")
        skews = {thing: skews[node] for thing, node in things}
    return skews if entities is None else {entity: skew for entity, skew in skews.items() if entity in entities}


def window(
    scope: Scope,
    start: int,
    end: int,
    entities: Collection[int] | None = None,
    metrics: Collection[str] | None = None,
    *,
    ahead: Ahead | None = None,
) -> pl.DataFrame:
    """Raw rows with start <= ts < end, ordered by key, as Series.window answers; what is read seldom is filled in (held.py)."""
    names = held.asked(scope, metrics)
    if not names or start >= end:
        return _window(scope, start, end, entities, metrics, ahead)
    rows = _window(scope, start - held.HELD_S, end, entities, metrics, ahead)
    return held.fill(rows, names).filter(pl.col("ts") >= start)


def _window(
    scope: Scope, start: int, end: int, entities: Collection[int] | None, metrics: Collection[str] | None, ahead: Ahead | None
) -> pl.DataFrame:
    skews = _known(scope, entities, ahead)
    frame = store().window(scope, start, end, _in_time(entities, skews), metrics)
    if not skews:
        return frame
    parts = [_without(frame, skews)]
    for group in _groups(skews):
        part = store().window(scope, start + min(group.values()), end + max(group.values()), list(group), metrics)
        parts.append(_moved(part, group).filter(pl.col("ts").is_between(start, end, closed="left")))
    return pl.concat(parts, how="diagonal_relaxed").sort("entity", *(["pid"] if scope == "process" else []), "ts")


def latest(
    scope: Scope,
    since: int,
    entities: Collection[int] | None = None,
    metrics: Collection[str] | None = None,
    *,
    ahead: Ahead | None = None,
) -> pl.DataFrame:
    """The newest row of each entity with ts >= since, as Series.latest answers; what is read seldom is filled in (held.py)."""
    ahead = _known(scope, entities, ahead)
    newest = _latest(scope, since, entities, metrics, ahead)
    names = held.asked(scope, metrics)
    if not names or newest.is_empty():
        return newest
    known = newest["entity"].to_list() if entities is not None else None
    end = newest.select(pl.col("ts").max()).item() + 1
    return held.fill_newest(newest, _window(scope, since - held.HELD_S, end, known, names, ahead), names)


def _latest(
    scope: Scope, since: int, entities: Collection[int] | None, metrics: Collection[str] | None, ahead: Ahead | None
) -> pl.DataFrame:
    skews = _known(scope, entities, ahead)
    frame = store().latest(scope, since, _in_time(entities, skews), metrics)
    if skews:
        parts = [_without(frame, skews)]
        for group in _groups(skews):
            part = _moved(store().latest(scope, since + min(group.values()), list(group), metrics), group)
            parts.append(part.filter(pl.col("ts") >= since))
        frame = pl.concat(parts, how="diagonal_relaxed")
    return _of_now(scope, since, metrics, skews, frame)


def _of_now(scope: Scope, since: int, metrics: Collection[str] | None, skews: Ahead, newest: pl.DataFrame) -> pl.DataFrame:
    """The newest rows, of those that are not still to come: a clock that was set back leaves such rows behind."""
    until = int(time.time()) + _NEAR_S
    early = newest.filter(pl.col("ts") > until)["entity"].unique().to_list()
    if not early:
        return newest
    keys = ["entity", "pid"] if scope == "process" else ["entity"]
    rows = _window(scope, since, until + 1, early, metrics, skews)
    known = rows.group_by(keys, maintain_order=True).last().select(newest.columns)
    return pl.concat([newest.filter(~pl.col("entity").is_in(early)), known], how="vertical_relaxed")


def series(
    scope: Scope,
    entity: int,
    metrics: Collection[str],
    start: int,
    end: int,
    step_s: int,
    *,
    ahead: Ahead | None = None,
    full: bool = False,
) -> pl.DataFrame:
    """One entity in buckets, as Series.series answers. Buckets stay whole, so times are right to half a bucket.

    What is read seldom is filled in (held.py) where buckets are shorter than a reading holds.
    """
    skew = _known(scope, (entity,), ahead).get(entity, 0)
    moved = round(skew / step_s) * step_s
    names = held.asked(scope, metrics) if 0 < step_s < held.HELD_S and start < end else []
    early = held.HELD_S if names else 0
    frame = store().series(scope, entity, metrics, start + moved - early, end + moved, step_s, full=full)
    frame = frame.with_columns(pl.col("ts") - moved) if moved else frame
    if not names:
        return frame
    return held.fill_buckets(frame, names).filter(pl.col("ts") > start - step_s)


def _known(scope: Scope, entities: Collection[int] | None, given: Ahead | None) -> Ahead:
    if given is None:
        return ahead(scope, entities)
    return given if entities is None else {entity: skew for entity, skew in given.items() if entity in entities}


def _in_time(entities: Collection[int] | None, skews: Ahead) -> Collection[int] | None:
    return entities if entities is None or not skews else [entity for entity in entities if entity not in skews]


def _without(frame: pl.DataFrame, skews: Ahead) -> pl.DataFrame:
    return frame.filter(~pl.col("entity").is_in(list(skews)))


def _groups(skews: Ahead) -> list[dict[int, int]]:
    """The entities in groups that one read can serve without reading hours for the sake of one of them."""
    groups: dict[int, dict[int, int]] = defaultdict(dict)
    for entity, skew in skews.items():
        groups[skew // _TOGETHER_S][entity] = skew
    return list(groups.values())


def _moved(frame: pl.DataFrame, skews: Ahead) -> pl.DataFrame:
    off = pl.col("entity").replace_strict(list(skews), list(skews.values()), return_dtype=pl.Int64)
    return frame.with_columns((pl.col("ts") - off).cast(frame.schema["ts"]))
