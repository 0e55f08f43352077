"""Who holds which GPU, as the pages of a node and of a GPU show it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from fleet.inventory.models import Gpu
from fleet.jobs.holding import Held, holders


@dataclass(frozen=True, slots=True)
class Row:
    """One job (the key of its row) with the GPUs of the page that it holds. `shared`: others hold some of them at the same time."""

    job: int
    target: str
    indices: tuple[int, ...]
    since: datetime
    shared: bool
    scheduled: bool


def rows(gpus: Iterable[Gpu]) -> list[Row]:
    """One row a job that holds any of these GPUs now, in the order of the GPUs."""
    index = {gpu.pk: gpu.index for gpu in gpus}
    held: dict[str, list[tuple[int, Held]]] = {}
    found = holders(timezone.now(), index)
    for gpu in sorted(found, key=lambda pk: (index[pk], pk)):
        for one in found[gpu]:
            held.setdefault(one.target, []).append((index[gpu], one))
    return [
        Row(
            mine[-1][1].job,
            target,
            tuple(dict.fromkeys(place for place, _ in mine)),
            min(one.from_at for _, one in mine),
            any(one.shared for _, one in mine),
            any(one.scheduled for _, one in mine),
        )
        for target, mine in held.items()
    ]
