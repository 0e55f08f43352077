"""Links in messages that acknowledge an alert: signed, for a while, and only a page that asks: a chat's preview opens links too."""

import time
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.core import signing
from django.utils.translation import gettext

from fleet.notify.models import Delivery

PATH: Final = "/alerts/acknowledge/{token}/"


@dataclass(frozen=True, slots=True)
class AckLink:
    """What a link is about: the alert and the route whose readers may press it; `delivery` is the message, which may tell of more alerts."""

    finding_id: int
    route_id: int
    delivery_id: int


class AckLinkError(Exception):
    """The link is none of ours, or its time is over; the message says so in a sentence."""


class AckLinkTooOldError(AckLinkError):
    """It was ours, and its time is over."""


def ack_link(delivery: Delivery) -> str:
    """The address that acknowledges the alert of a message; "" where nobody said where the pages are."""
    base = settings.FETTLE_BASE_URL.rstrip("/")
    until_h = (
        int(time.time() // 3600) + 1 + settings.FETTLE_ACK_LINK_H
    )  # of whole hours: an attempt later the message is the same
    names = {"f": delivery.transition.finding_id, "r": delivery.route_id, "d": delivery.pk, "h": until_h}
    return base + PATH.format(token=_signer().sign_object(names)) if base else ""


def opened(token: str) -> AckLink:
    """What the link with this token is about; AckLinkError when it is not to be trusted, or too old."""
    try:
        names = _signer().unsign_object(token)
        link, until_h = AckLink(int(names["f"]), int(names["r"]), int(names["d"])), int(names["h"])
    except (signing.BadSignature, KeyError, TypeError, ValueError):
        raise AckLinkError(gettext("This link is not valid. Acknowledge the alert on its page.")) from None
    if time.time() >= until_h * 3600:
        raise AckLinkTooOldError(gettext("This link is too old. Acknowledge the alert on its page."))
    return link


def _signer() -> signing.Signer:
    return signing.Signer(salt="fleet.notify.ack_links")
