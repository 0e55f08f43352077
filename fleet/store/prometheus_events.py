"""XIDs of a fleet that is read from a Prometheus: dcgm-exporter shows the last code for ever, so a code that changes is an event.

Each change has the same key however often it is seen, so that looking at the same minutes again and again makes one row of it.
What was there when a series began is not told: nobody knows when it was.
"""

from collections import defaultdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from fleet.inventory.models import Event, Gpu
from fleet.store import prometheus_cells, promql
from fleet.store.prometheus import SOURCE, PrometheusSeries
from fleet.store.prometheus_inventory import LOOK_S, select
from wire import dcgm_fields

MAX_CODE: Final = 10_000
GPUS: Final = 1 << 20
"""So many keys has a millisecond: one for each GPU, by its id, for two of a node may say the same index."""


def notice(engine: PrometheusSeries, now: float) -> int:
    """Make a row of each XID of the last LOOK_S seconds; how many of them are new. StoreError."""
    told: dict[str, dict[float, int]] = defaultdict(dict)
    for one in promql.instant(engine.read, f"{select(engine, (dcgm_fields.XID,))}[{LOOK_S}s]", now):
        of = prometheus_cells.of(one.metric)
        if of is not None:  # a change of the code may begin another series, whose labels say it in words
            told[of.parent or of.uuid].update((at, int(float(text))) for at, text in one.values if 0 <= float(text) < MAX_CODE)
    changes = {
        (uuid, at, code)
        for uuid, points in told.items()
        for (_, before), (at, code) in pairwise(sorted(points.items()))
        if code not in (before, 0)
    }
    gpus = {
        gpu.uuid: gpu for gpu in Gpu.objects.filter(uuid__in={uuid for uuid, _, _ in changes}, node__source=SOURCE, present=True)
    }
    events = [
        Event(
            node_id=gpus[uuid].node_id,
            gpu=gpus[uuid],
            boot=SOURCE,
            seq=round(at * 1000) * GPUS + gpus[uuid].pk % GPUS,
            kind="xid",
            code=code,
            text=f"XID {code}",
            observed_at=datetime.fromtimestamp(at, UTC),
        )
        for uuid, at, code in sorted(changes)
        if uuid in gpus
    ]
    before = Event.objects.filter(boot=SOURCE).count() if events else 0
    Event.objects.bulk_create(events, ignore_conflicts=True)
    return Event.objects.filter(boot=SOURCE).count() - before if events else 0
