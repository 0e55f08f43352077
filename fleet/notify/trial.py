"""A test message through one route, for the admin and the command line."""

from uuid import uuid4

from django.conf import settings
from django.utils.translation import gettext as _

from fleet.notify.deliver import Message, Outcome, send
from fleet.notify.models import Route


def trial(route: Route) -> Outcome:
    """What became of a test message sent right now; no delivery row is made."""
    body = _("If you read this, Fettle can announce findings here.") + f"\n{settings.FETTLE_BASE_URL}"
    return send(route.url, Message(title=_("Test message of Fettle"), body=body, kind="info", key=uuid4().hex))
