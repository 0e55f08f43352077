"""What ran after a change and may be compared with what ran before.

A change to a program shows in its next runs. One to a card, a node, a service or to what the whole fleet uses shows at once, in the time
since then: on the same GPUs, and of the same service.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from django.conf import settings

from advisor.verification.stretch import Stretch
from fleet.inventory.models import Gpu
from fleet.slow.models import JobRun
from fleet.slow.runs import ACTIVE
from fleet.verdicts import serving
from fleet.verdicts.models import Verification
from fleet.verdicts.stretches import read

MOST_RUNS: Final = 5
"""After one change, or times; whether it helped does not take more."""
MOST_TIMES: Final = 12
"""That are looked at in one round; the next round goes on."""
EARLY: Final = timedelta(seconds=60)
"""A run may have begun so long before somebody said that the change was made."""
LEAST_S: Final = 10.0
"""Of a run that has ended, after its warm-up; less is a crash."""

After: TypeAlias = tuple[Stretch, datetime, datetime]


def after(row: Verification, now: datetime) -> Iterator[After]:
    """What may be compared, oldest first, each with its time. StoreError when the store cannot be read."""
    yield from _runs(row, now) if row.scope == "job" else _times(row, now)


def _runs(row: Verification, now: datetime) -> Iterator[After]:
    """Runs of the family that lasted long enough or have ended."""
    span = timedelta(seconds=settings.FETTLE_VERIFY_SPAN_S)
    patience = timedelta(seconds=settings.FETTLE_ADVISOR_PATIENCE_S)
    runs = JobRun.objects.filter(program=row.family, first_seen__gte=row.applied_at - EARLY).order_by("first_seen", "pk")
    for run in runs[:MOST_RUNS]:
        steady = run.first_seen + patience
        ended = run.last_seen < now - ACTIVE
        if run.last_seen < steady + span and not ended:
            continue  # not yet
        if (run.last_seen - steady).total_seconds() < LEAST_S:
            continue
        cards = list(Gpu.objects.filter(pk__in=run.gpu_ids).select_related("node").order_by("pk"))
        end = min(run.last_seen, steady + span)
        if cards and (found := read(cards, run.first_seen, end, row.family, run.told, run.job)):
            yield found, steady, end


def _times(row: Verification, now: datetime) -> Iterator[After]:
    """One span after the other: first those that were alike and too unsure by themselves, then what was not looked at yet.

    `row.looked` is brought up to what was.
    """
    span = timedelta(seconds=settings.FETTLE_VERIFY_SPAN_S)
    first = row.applied_at + timedelta(seconds=settings.FETTLE_ADVISOR_PATIENCE_S)
    if "to" in row.looked:
        first = datetime.fromtimestamp(row.looked["to"], UTC)
    again = [datetime.fromtimestamp(at, UTC) for at in row.looked.get("alike", ())]
    starts = [*again, *(first + place * span for place in range(MOST_TIMES if len(again) < MOST_RUNS else 0))]
    if not any(start + span <= now for start in starts):
        return
    reader = _reader(row)
    for start in starts:
        end = start + span
        if reader is None or end > now:
            continue
        found = reader(start, end)
        if start >= first:
            row.looked = row.looked | {"to": end.timestamp()}
        if found is not None:
            yield found, start, end


def _reader(row: Verification) -> Callable[[datetime, datetime], Stretch | None] | None:
    """Reads what was changed, from when until when; None where nobody knows any more what that is."""
    if row.scope == "service":
        engine = serving.engine_after(row)
        return None if engine is None else lambda start, end: serving.read(engine, start, end, gpus=row.gpus)
    cards = _cards(row)
    return (lambda start, end: read(cards, start, end, "", {}, row.target)) if cards else None


def _cards(row: Verification) -> list[Gpu]:
    if row.scope == "fleet":
        return list(Gpu.objects.filter(pk__in=row.before_side.get("gpus", ())).select_related("node").order_by("pk"))
    finding = row.finding
    if finding is None:
        return []
    cards = finding.gpus.select_related("node").order_by("pk")
    if not cards and finding.node is not None:
        cards = finding.node.gpus.filter(present=True).select_related("node").order_by("pk")
    return list(cards[: row.gpus])
