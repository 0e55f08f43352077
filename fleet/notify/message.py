"""The message for one transition, from templates/notify/."""

from typing import Final

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.translation import override

from fleet.findings.content import render
from fleet.notify.deliver import Kind, Message
from fleet.notify.models import Delivery

_KIND: Final[dict[str, Kind]] = {"critical": "failure", "warn": "warning", "advice": "info", "info": "info"}


def message(delivery: Delivery) -> Message:
    """Title and body of a delivery in the site's language: severity, place, numbers, the change, a link."""
    transition = delivery.transition
    finding = transition.finding
    with override(settings.LANGUAGE_CODE):
        context = {
            "delivery": delivery,
            "transition": transition,
            "finding": finding,
            "says": render(finding),
            "gpus": list(finding.gpus.all()),
            "link": f"{settings.FETTLE_BASE_URL.rstrip('/')}/findings/{finding.pk}/",
        }
        return Message(
            title=" ".join(render_to_string("notify/title.txt", context).split()),
            body=render_to_string("notify/body.txt", context).strip(),
            kind="success" if transition.after == "resolved" else _KIND.get(finding.severity, "info"),
            key=delivery.key,
        )
