"""From a report to a row; a report that comes again changes nothing."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from django.db import IntegrityError, transaction
from django.utils.translation import gettext

from advisor.profiles.joined import features
from fleet.accounts.plain_text import REFUSED, all_plain
from fleet.inventory.models import Node
from fleet.profiles.models import JobProfile
from wire.profile import ProfileReport, encode

MAX_AHEAD: Final = timedelta(minutes=1)
MAX_A_DAY: Final = 100
"""Of one node: whoever holds its token cannot fill the database."""


class KeepError(Exception):
    """The report cannot be kept; the message is for whoever sent it."""


class TooManyProfilesError(KeepError):
    """The node sent as many as a day may have."""


class Kept(NamedTuple):
    """The profile's row, and whether it was new."""

    profile: JobProfile
    is_new: bool


def keep(report: ProfileReport, node: Node, now: datetime) -> Kept:
    """Write the report's row, unless it is there; KeepError where it is not to be kept."""
    at = datetime.fromtimestamp(report.at, UTC)
    if at > now + MAX_AHEAD:
        raise KeepError(gettext("The profile was written in the future, by this server's clock: check the node's."))
    if not all_plain(msgspec.to_builtins(report)):
        raise KeepError(str(REFUSED))
    digest = hashlib.sha256(encode(report)).hexdigest()
    found = JobProfile.objects.filter(node=node, digest=digest).first()
    if found is not None:
        return Kept(found, False)
    if JobProfile.objects.filter(node=node, received_at__gt=now - timedelta(days=1)).count() >= MAX_A_DAY:
        raise TooManyProfilesError(
            gettext("The node sent {most} profiles within a day: no more are kept until tomorrow.").format(most=MAX_A_DAY)
        )
    try:
        with transaction.atomic():
            row = JobProfile.objects.create(
                node=node,
                job=report.job,
                pid=report.pid,
                at=at,
                received_at=now,
                digest=digest,
                features=features(report),
                summary=msgspec.to_builtins(report),
            )
    except IntegrityError:  # another request was faster
        return Kept(JobProfile.objects.get(node=node, digest=digest), False)
    return Kept(row, True)
