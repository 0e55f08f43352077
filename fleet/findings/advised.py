"""What people make of advice: accepted or dismissed, and applied. What is measured of it afterwards: concluded.py."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from fleet.accounts.models import User
from fleet.findings.models import Finding, Transition

MOVES: Final[Mapping[str, tuple[str, ...]]] = {
    "proposed": ("accepted", "dismissed", "applied"),
    "accepted": ("applied", "dismissed"),
    "dismissed": ("proposed",),
}
"""What people may make of advice; the verdicts after `applied` are measured, not given."""


class MoveError(Exception):
    """The advice cannot go from where it is to where somebody wants it; the message says where it can go."""


def advise_transition(
    finding: Finding, after: str, user: User | None, note: str = "", *, at: datetime | None = None
) -> Transition:
    """Move the advice to `after` on a person's word; `at`: when it was applied, where that was before now.

    MoveError when the finding has ended, the advice cannot go there, or somebody moved it first. What was applied may be told of a
    finding that has ended: to apply a change a job is often restarted, and its finding ends with it.
    """
    before = finding.advice
    if finding.resolved_at is not None and not (after == "applied" and after in MOVES.get(before, ())):
        raise MoveError(gettext("The finding has ended; its advice stays {before}.").format(before=before))
    allowed = MOVES.get(before, ())
    if after not in allowed:
        can = gettext("The advice is {before}; it can become one of: {after}.") if allowed else gettext("The advice is {before}.")
        raise MoveError(can.format(before=before, after=", ".join(allowed)))
    with transaction.atomic():
        still = Finding.objects.filter(pk=finding.pk, advice=before)
        if after != "applied":
            still = still.filter(resolved_at=None)
        if not still.update(advice=after):
            raise MoveError(gettext("Somebody else changed the advice meanwhile, or the finding ended; look again."))
        written = Transition.objects.create(
            finding=finding, axis="advice", before=before, after=after, at=at or timezone.now(), by=user, note=note[:500]
        )
    finding.advice = after
    return written
