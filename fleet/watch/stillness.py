"""GPUs whose readings do not move at all: their energy counter stands while others' run, so somebody tells what was, not what is."""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final

from fleet.inventory.models import Gpu
from fleet.store import clock
from fleet.watch.models import Watch

EVERY_S: Final = 60.0
LOOK_BACK_S: Final = 30
STILL_S: Final = 600.0
"""An idle card's power and energy move within seconds; a recorded or cached answer does not."""
READ: Final = ("energy_j_total", "power_w", "temperature_c", "sm_clock_mhz", "mem_used_bytes", "gpu_util_pct")
"""Of a card that tells its energy that alone is enough, for it grows as long as the card has power."""


def still(watch: Watch, at: datetime, heard: Collection[int]) -> Mapping[int, int]:
    """By node how many of its GPUs have not moved for STILL_S. StoreError where the store cannot be read."""
    if watch.still_at is None or not 0 <= (at - watch.still_at).total_seconds() < EVERY_S:
        _look(watch, at, heard)
    now = at.timestamp()
    return Counter(int(one[2]) for one in watch.still.values() if now - one[1] >= STILL_S and int(one[2]) in heard)


def _look(watch: Watch, at: datetime, heard: Collection[int]) -> None:
    cards = dict(Gpu.objects.filter(node__in=heard, present=True, parent_uuid="").order_by().values_list("pk", "node"))
    now = at.timestamp()
    frame = clock.latest("gpu", int(now) - LOOK_BACK_S, list(cards), list(READ)) if cards else None
    found: dict[str, list[Any]] = {}
    moved = 0
    for row in frame.iter_rows(named=True) if frame is not None else ():
        mark = _mark(row)
        if mark is None or row["entity"] not in cards:
            continue
        held = watch.still.get(str(row["entity"]))
        if held is not None and held[0] == mark:
            found[str(row["entity"])] = [mark, held[1], cards[row["entity"]]]
        else:
            moved += 1
            found[str(row["entity"])] = [mark, now, cards[row["entity"]]]
    # Where nothing moves at all nobody can tell a source that stands still from a store that does.
    watch.still = found if moved or not watch.still else {}
    watch.still_at = at


def _mark(row: Mapping[str, Any]) -> list[float] | None:
    """What is compared from look to look; None where too little is told to say that it stands still."""
    energy = row.get("energy_j_total")
    if energy is not None and math.isfinite(energy):
        return [float(energy)]
    if row.get("power_w") is None:
        return None
    return [float(row[name]) if row.get(name) is not None else -1.0 for name in READ]
