"""What the server makes of advice: applied, where a later run shows that it was, and the verdict on it. People's moves: lifecycle.py."""

from datetime import datetime
from typing import Final

from django.db import transaction

from fleet.findings.advised import MOVES
from fleet.findings.models import Finding, Transition
from fleet.findings.signals import transitions_written

VERDICTS: Final = ("helped", "no_effect", "worse", "cannot_tell")


def apply_seen(finding: Finding, at: datetime, note: str) -> bool:
    """Mark advice as applied because a later run showed that it was; False when somebody has moved it meanwhile."""
    before = finding.advice
    with transaction.atomic():
        if "applied" not in MOVES.get(before, ()) or not Finding.objects.filter(pk=finding.pk, advice=before).update(
            advice="applied"
        ):
            return False
        Transition.objects.create(finding=finding, axis="advice", before=before, after="applied", at=at, note=note)
    finding.advice = "applied"
    return True


def conclude(finding: Finding, verdict: str, at: datetime) -> bool:
    """Move advice that was applied to what was measured of it; False when it is not applied any more."""
    if verdict not in VERDICTS:
        raise ValueError(f"{verdict} is no verdict; there are: {', '.join(VERDICTS)}")
    with transaction.atomic():
        if not Finding.objects.filter(pk=finding.pk, advice="applied").update(advice=verdict):
            return False
        Transition.objects.create(finding=finding, axis="advice", before="applied", after=verdict, at=at)
        transaction.on_commit(_tell, robust=True)
    finding.advice = verdict
    return True


def _tell() -> None:
    transitions_written.send(sender=None)
