"""The verdict on advice that waits for one: the first run or time after it that can be compared (after.py).

Each run or time is compared by itself; where the readings of one vary too much to tell, those of the next are put with it. What comes to
nothing until it is due cannot be told.
"""

from datetime import datetime
from typing import Any, Final

from django.db import transaction

from advisor.rule import Rule
from advisor.text import Text, _
from advisor.verification.compare import Comparison, compare
from advisor.verification.service import NO_SPEED, compare_service, is_measured
from advisor.verification.stretch import Stretch
from fleet.findings.concluded import conclude
from fleet.tuning.in_force import in_force
from fleet.verdicts.after import after
from fleet.verdicts.models import Verification
from fleet.verdicts.stretches import packed, samples_of

AT_ONCE: Final = 50
NO_RUN: Final = _("Nothing ran after the change that could be compared with what ran before.")
NO_TELEMETRY: Final = _("Nothing is stored of the time before the change.")
NO_SUFFERERS: Final = _("No job is known that this held back before the change: there is nothing to compare with.")
NO_ENGINE: Final = _("The service told nothing before the change, or is known no more: there is nothing to compare with.")
NO_RULE: Final = _("The rule that gave this advice is there no more.")
_NOTHING_BEFORE: Final = {"service": NO_ENGINE, "fleet": NO_SUFFERERS}


def measure(row: Verification, now: datetime) -> bool:
    """Try to come to a verdict on a row that waits; True when it has one. StoreError when the store cannot be read."""
    rule = next((one for one in in_force().rules if one.id == row.rule), None)
    if rule is None or not row.before_samples:
        _conclude(row, Comparison("cannot_tell", Text(_hopeless(row, rule))), None, now)
        return True
    if row.scope == "service" and not is_measured(rule):
        _conclude(row, Comparison("cannot_tell", Text(NO_SPEED)), None, now)
        return True
    before = _before(row)
    pool: list[Stretch] = []
    alike: list[float] = []
    newest: Comparison | None = None
    for stretch, start, end in after(row, now):
        found = _compared(rule, row, before, [stretch])
        if found.verdict == "cannot_tell" and found.ratio is not None:
            alike.append(start.timestamp())
            pool.append(stretch)
            if len(pool) > 1:
                found = _compared(rule, row, before, pool)
        newest = found
        row.after_from, row.after_until = start, end
        if found.verdict != "cannot_tell":
            _conclude(row, found, stretch, now)
            return True
    if now >= row.due_at:
        last = row.reason if newest is None else {}  # times that were looked at before are not looked at again
        _conclude(row, newest or Comparison("cannot_tell", Text(NO_RUN)), None, now, last)
        return True
    _wait(row, newest, alike)
    return False


def _compared(rule: Rule, row: Verification, before: Stretch, pool: list[Stretch]) -> Comparison:
    return compare_service(rule, before, pool) if row.scope == "service" else compare(rule, [before], pool)


def _wait(row: Verification, newest: Comparison | None, alike: list[float]) -> None:
    """Keep why the row still waits, and up to when it was looked."""
    looked = row.looked | ({"alike": alike} if alike else {})
    reason = row.reason if newest is None else _stored(newest.reason)
    known = Verification.objects.values_list("looked", "reason").get(pk=row.pk)
    if (looked, reason) != known:
        row.looked, row.reason = looked, reason
        row.save(update_fields=["looked", "reason", "after_from", "after_until"])


def _hopeless(row: Verification, rule: Rule | None) -> str:
    """Why no run to come can tell."""
    return NO_RULE if rule is None else _NOTHING_BEFORE.get(row.scope, NO_TELEMETRY)


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


def _conclude(
    row: Verification, found: Comparison, since: Stretch | None, now: datetime, reason: dict[str, Any] | None = None
) -> None:
    """Write the verdict, and move the finding's advice to it."""
    row.verdict, row.reason, row.measured_at = found.verdict, reason or _stored(found.reason), now
    row.measure = found.measure.id if found.measure else ""
    row.before, row.after = found.before, found.after
    if found.ratio is not None:
        row.ratio, row.ratio_low, row.ratio_high, row.p = found.ratio.value, found.ratio.low, found.ratio.high, found.ratio.p
    if since is not None:
        row.after_samples = packed(since)
    with transaction.atomic():
        row.save()
        if row.finding is not None:
            conclude(row.finding, found.verdict, now)


def _stored(text: Text) -> dict[str, Any]:
    return {"id": text.id, "params": dict(text.params)}
