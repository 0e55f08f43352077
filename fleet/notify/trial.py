"""A test message through one route, for the admin and the command line."""

from dataclasses import replace
from datetime import timedelta
from typing import Final
from uuid import uuid4

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import override

from fleet.notify.deliver import Outcome, send
from fleet.notify.models import Route
from fleet.notify.note import Alert, Message

SHOWN: Final = timedelta(minutes=2)
"""How long an Alertmanager shows the test."""


def trial(route: Route) -> Outcome:
    """What became of a test message sent right now, in the route's language; no delivery row is made.

    A program that keeps alerts is told one that begins and one that ends, so that nothing stays open.
    """
    with override(route.language or settings.LANGUAGE_CODE):
        title = _("Test message of Fettle")
        body = _("If you read this, Fettle can announce findings here.")
    key, now = uuid4().hex, timezone.now()
    begin = Alert(
        fingerprint=f"test:{key}",
        firing=True,
        severity="info",
        title=title,
        summary=body,
        link=settings.FETTLE_BASE_URL,
        starts_at=now,
        labels={"alertname": "fettle-test", "severity": "info", "source": "fettle", "test": key[:8]},
    )
    alerts = (begin, replace(begin, firing=False, ends_at=now + SHOWN))
    return send(
        route.url,
        Message(
            title=title,
            body=body,
            kind="info",
            key=key,
            link=settings.FETTLE_BASE_URL,
            tail=settings.FETTLE_BASE_URL,
            alerts=alerts,
        ),
    )
