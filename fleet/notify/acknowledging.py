"""Somebody looks after an alert: what that stops, and how it is said and taken back."""

from collections.abc import Collection

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils.translation import gettext

from fleet.accounts.models import User
from fleet.findings.models import Finding
from fleet.notify.models import Acknowledgement


class AcknowledgeError(Exception):
    """It cannot be acknowledged; the message says why."""


def acknowledge(finding: Finding, *, via: str, by: User | None = None, by_name: str = "", comment: str = "") -> Acknowledgement:
    """The acknowledgement of the alert as it is now: a new one, or that which somebody gave before.

    AcknowledgeError when it has ended or does not fire.
    """
    if finding.resolved_at is not None or finding.condition not in ("firing", "noisy"):
        raise AcknowledgeError(gettext("The alert does not fire; there is nothing to acknowledge."))
    said = {"by": by, "by_name": (by.get_username() if by else by_name)[:150], "via": via, "comment": comment[:300]}
    try:
        with transaction.atomic():
            row, _ = Acknowledgement.objects.get_or_create(finding=finding, severity_rank=finding.severity_rank, defaults=said)
    except IntegrityError:  # somebody else did so at the same moment
        row = Acknowledgement.objects.get(finding=finding, severity_rank=finding.severity_rank)
    return row


def take_back(finding: Finding) -> int:
    """Nobody looks after the alert any more: it repeats and escalates again. How many acknowledgements there were."""
    gone, _ = finding.acknowledgements.all().delete()
    return gone


def acknowledged(findings: Collection[int]) -> set[int]:
    """Those of the findings that somebody looks after as they are now: one that grew worse since is not."""
    rows = Acknowledgement.objects.filter(finding__in=set(findings), severity_rank__gte=F("finding__severity_rank"))
    return set(rows.values_list("finding_id", flat=True))
