"""Which findings come and go: whose openings were so many within the hour that people are told once, and then left in peace."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext_noop

from fleet.findings import permitted
from fleet.findings.models import Finding, Transition

OPENINGS: Final = 4
SPAN: Final = timedelta(hours=1)
HELD_OPEN: Final = gettext_noop("It comes and goes: it is held open until it has kept still for 15 minutes.")
"""The note of the transition to noisy."""
JOB_ENDED: Final = gettext_noop("the job ended")
SERVICE_ENDED: Final = gettext_noop("the service ended")
"""The notes of the transitions that resolve a finding because its job or service stayed away."""
FOR_GOOD: Final = (JOB_ENDED, SERVICE_ENDED, *permitted.NOTES)
"""What ends even a finding that comes and goes: what it was about is not there any more."""


def noisy(rows: Collection[Finding], at: datetime) -> set[str]:
    """The fingerprints of those that would fire for the fourth time within the hour before.

    An opening that ended with its job, or because its rule was changed, is none: the finding did not flap.
    """
    for_another_reason = Transition.objects.filter(
        finding=OuterRef("finding"), axis="condition", after="resolved", note__in=(JOB_ENDED, *permitted.NOTES)
    )
    openings = Counter(
        Transition.objects.filter(
            ~Exists(for_another_reason),
            finding__fingerprint__in=[row.fingerprint for row in rows],
            axis="condition",
            before="pending",
            after__in=("firing", "noisy"),
            at__gt=at - SPAN,
        ).values_list("finding__fingerprint", flat=True)
    )
    return {fingerprint for fingerprint, times in openings.items() if times >= OPENINGS - 1}


def told(rises: Sequence[tuple[Finding, str]], at: datetime) -> set[tuple[int, str]]:
    """Of these findings with a note that their severity rose, those of which the same was told within the hour: it goes up and down."""
    rows = Transition.objects.filter(
        finding__in=[row.pk for row, _ in rises], axis="condition", before="firing", after="firing", at__gt=at - SPAN
    )
    return set(rows.values_list("finding_id", "note"))
