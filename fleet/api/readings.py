"""Readings of the store in the shapes that the API answers with."""

import time
from collections.abc import Collection, Sequence
from typing import Final, TypedDict

from fleet.inventory.models import STALE_AFTER
from fleet.store import clock
from wire import metrics
from wire.metrics import Number, Scope

LATEST_WITHIN_S: Final = 2 * int(STALE_AFTER.total_seconds())
"""Older readings are not shown as the latest: the state says that the node is stale."""


class Latest(TypedDict):
    """The newest row of one GPU or engine: `ts` in epoch seconds, and every metric of the registry, null where absent."""

    ts: int
    values: dict[str, Number | None]


def latest(entities: Collection[int], scope: Scope = "gpu") -> dict[int, Latest]:
    """The newest readings by the id of the GPU or engine; one without any is left out."""
    if not entities:
        return {}
    frame = clock.latest(scope, int(time.time()) - LATEST_WITHIN_S, entities)
    names = [metric.name for metric in metrics.sent(scope) if metric.name in frame.columns]
    return {
        row["entity"]: {"ts": row["ts"], "values": {name: row[name] for name in names}} for row in frame.iter_rows(named=True)
    }


def columns(
    scope: Scope, entity: int, names: Sequence[str], start: int, end: int, step_s: int
) -> dict[str, list[int] | list[Number | None]]:
    """`ts` and one list a metric over the whole grid of buckets; null where a bucket holds no value."""
    first = start // step_s * step_s
    grid = list(range(first, end, step_s))
    frame = clock.series(scope, entity, names, start, end, step_s)
    place = {ts: row for row, ts in enumerate(frame.get_column("ts").to_list())}
    answer: dict[str, list[int] | list[Number | None]] = {"ts": grid}
    for name in names:
        values = frame.get_column(name).to_list()
        answer[name] = [values[place[ts]] if ts in place else None for ts in grid]
    return answer
