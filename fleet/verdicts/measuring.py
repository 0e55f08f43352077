"""The verdict on advice that waits for one: the first run or time after it that can be compared.

A change to a program shows in its next run; one to a card or a node at once, on the same GPUs. Each run is compared by itself; where the
readings of one vary too much to tell, those of the next are put with it. What comes to nothing until it is due cannot be told.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from advisor.rule import Rule
from advisor.text import Text, _
from advisor.verification.compare import Comparison, compare
from advisor.verification.stretch import Stretch
from fleet.findings.concluded import conclude
from fleet.inventory.models import Gpu
from fleet.slow.models import JobRun
from fleet.slow.runs import ACTIVE
from fleet.tuning.in_force import in_force
from fleet.verdicts.models import Verification
from fleet.verdicts.stretches import packed, read, samples_of

AT_ONCE: Final = 50
MOST_RUNS: Final = 5
"""After one change; whether it helped does not take more."""
EARLY: Final = timedelta(seconds=60)
"""A run may have begun so long before somebody said that the change was made."""
LEAST_S: Final = 10.0
"""Of a run that has ended, after its warm-up; less is a crash."""

NO_RUN: Final = _("Nothing ran after the change that could be compared with what ran before.")
NO_TELEMETRY: Final = _("Nothing is stored of the time before the change.")
NO_SPEED: Final = _("A change to a service or to the whole fleet shows at its load, which no two times have alike.")
NO_RULE: Final = _("The rule that gave this advice is there no more.")
IN_PLACE: Final = frozenset({"gpu", "node"})
"""Scopes whose change shows on the same GPUs, whatever runs there."""


def measure(row: Verification, now: datetime) -> bool:
    """Try to come to a verdict on a row that waits; True when it has one. StoreError when the store cannot be read."""
    rule = next((one for one in in_force().rules if one.id == row.rule), None)
    if why := _hopeless(row, rule):
        _conclude(row, Comparison("cannot_tell", Text(why)), None, now)
        return True
    assert rule is not None  # noqa: S101 - _hopeless
    before = _before(row)
    pool: list[Stretch] = []
    newest: Comparison | None = None
    for stretch, start, end in _after(row, now):
        found = compare(rule, [before], [stretch])
        if found.verdict == "cannot_tell" and found.ratio is not None:
            pool.append(stretch)
            if len(pool) > 1:
                found = compare(rule, [before], pool)
        newest = found
        row.after_from, row.after_until = start, end
        if found.verdict != "cannot_tell":
            _conclude(row, found, stretch, now)
            return True
    if now >= row.due_at:
        _conclude(row, newest or Comparison("cannot_tell", Text(NO_RUN)), None, now)
        return True
    if newest is not None:
        reason = _stored(newest.reason)
        if reason != row.reason:
            row.reason = reason
            row.save(update_fields=["reason", "after_from", "after_until"])
    return False


def _hopeless(row: Verification, rule: Rule | None) -> str:
    """Why no run to come can tell; "" where one may."""
    if rule is None:
        return NO_RULE
    if row.scope not in ("job", *IN_PLACE):
        return NO_SPEED
    return "" if row.before_samples else NO_TELEMETRY


def _before(row: Verification) -> Stretch:
    side: dict[str, Any] = row.before_side
    return Stretch(
        row.target,
        samples_of(row.before_samples),
        row.gpu_model,
        row.gpus,
        tuple(side.get("phases") or (1.0,)),
        bool(side.get("others")),
        side.get("program"),
        row.told,
    )


def _after(row: Verification, now: datetime) -> Iterator[tuple[Stretch, datetime, datetime]]:
    """What may be compared, oldest first, each with its time: runs that lasted long enough or have ended, or the same GPUs' time."""
    span = timedelta(seconds=settings.FETTLE_VERIFY_SPAN_S)
    patience = timedelta(seconds=settings.FETTLE_ADVISOR_PATIENCE_S)
    if row.scope in IN_PLACE:
        start = row.applied_at + patience
        if now >= start + span and row.finding is not None:
            cards = _cards(row)
            if cards and (found := read(cards, start, start + span, "", {}, row.target)):
                yield found, start, start + span
        return
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


def _cards(row: Verification) -> list[Gpu]:
    finding = row.finding
    if finding is None:
        return []
    cards = finding.gpus.select_related("node").order_by("pk")
    if not cards and finding.node is not None:
        cards = finding.node.gpus.filter(present=True).select_related("node").order_by("pk")
    return list(cards[: row.gpus])


def _conclude(row: Verification, found: Comparison, after: Stretch | None, now: datetime) -> None:
    """Write the verdict, and move the finding's advice to it."""
    row.verdict, row.reason, row.measured_at = found.verdict, _stored(found.reason), now
    row.measure = found.measure.id if found.measure else ""
    row.before, row.after = found.before, found.after
    if found.ratio is not None:
        row.ratio, row.ratio_low, row.ratio_high, row.p = found.ratio.value, found.ratio.low, found.ratio.high, found.ratio.p
    if after is not None:
        row.after_samples = packed(after)
    with transaction.atomic():
        row.save()
        if row.finding is not None:
            conclude(row.finding, found.verdict, now)


def _stored(text: Text) -> dict[str, Any]:
    return {"id": text.id, "params": dict(text.params)}
