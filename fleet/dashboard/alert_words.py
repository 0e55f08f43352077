"""The words of alerts: labels, operators, days, and what became of a delivery."""

from typing import Final

from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from fleet.dashboard import words
from fleet.notify.matchers import Matchers

LABEL: Final = {
    "severity": pgettext_lazy("label", "severity"),
    "rule": pgettext_lazy("label", "rule"),
    "group": pgettext_lazy("label", "group of rules"),
    "scope": pgettext_lazy("label", "scope"),
    "cluster": pgettext_lazy("label", "cluster"),
    "partition": pgettext_lazy("label", "partition"),
    "node": pgettext_lazy("label", "node"),
    "gpu_model": pgettext_lazy("label", "GPU model"),
    "rack": pgettext_lazy("label", "rack"),
    "owner": pgettext_lazy("label", "owner"),
    "team": pgettext_lazy("label", "team"),
    "job": pgettext_lazy("label", "job"),
    "service": pgettext_lazy("label", "service"),
}
OPERATOR: Final = {"in": pgettext_lazy("operator", "is one of"), "not_in": pgettext_lazy("operator", "is none of")}
DAY: Final = (
    pgettext_lazy("day", "Mon"), pgettext_lazy("day", "Tue"), pgettext_lazy("day", "Wed"), pgettext_lazy("day", "Thu"),
    pgettext_lazy("day", "Fri"), pgettext_lazy("day", "Sat"), pgettext_lazy("day", "Sun"),
)  # fmt: skip
STATE: Final = {
    "waiting": pgettext_lazy("delivery", "waits in its group"),
    "pending": pgettext_lazy("delivery", "about to be sent"),
    "sending": pgettext_lazy("delivery", "being sent"),
    "sent": pgettext_lazy("delivery", "sent"),
    "failed": pgettext_lazy("delivery", "failed, tried again"),
    "dead": pgettext_lazy("delivery", "given up"),
    "muted": pgettext_lazy("delivery", "told to nobody"),
}
KIND: Final = {
    "news": pgettext_lazy("kind of message", "news"),
    "repeat": pgettext_lazy("kind of message", "repeat"),
    "escalation": pgettext_lazy("kind of message", "escalation"),
}
VIA: Final = {"page": _("on this page"), "api": _("over the API"), "link": _("by the link in a message")}
WHAT: Final = {
    "told": pgettext_lazy("decision", "gets it"),
    "muted": pgettext_lazy("decision", "would get it, but it is quiet"),
    "not_taken": pgettext_lazy("decision", "does not take it"),
}
NAMED: Final = 3
"""Values of a matcher that a list shows."""
LANGUAGE: Final = (("", _("the site's")), ("en", "English"), ("zh-hans", "简体中文"))


def matchers(told: Matchers) -> list[dict[str, object]]:
    """Each matcher as its label and operator in words, its first values, and all of them in one text where there are more."""
    return [
        {
            "label": words.word(LABEL, one["label"]),
            "op": words.word(OPERATOR, one["op"]),
            "values": one["values"][:NAMED],
            "more": max(len(one["values"]) - NAMED, 0),
            "all": ", ".join(one["values"]),
        }
        for one in told
    ]


def hours(times: list[dict[str, object]]) -> list[str]:
    """Each time as people say it: days, hours and the zone that they are of."""
    return [f"{_days(one['days'])} {one['from']}–{one['to']} {one['timezone']}" for one in times]


def _days(days: object) -> str:
    """The days; those of a whole week by one word."""
    listed = sorted(set(days)) if isinstance(days, list) else []
    return gettext("every day") if len(listed) == len(DAY) else ", ".join(str(DAY[day]) for day in listed)
