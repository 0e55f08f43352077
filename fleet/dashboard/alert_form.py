"""Matchers, hours, labels and times of alerts as form fields: rows that a browser without scripts can fill in too.

A row's fields are called `matchers-0-label`, `matchers-0-op` and `matchers-0-values`; rows left empty are none. What stands in them is
judged by `fleet.notify.checks`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import available_timezones

from django.http import QueryDict
from django.utils.translation import gettext

from fleet.dashboard import alert_words, words
from fleet.notify.models import LABELS, OPERATORS

SPARE: Final = 2
"""Empty rows after those that are filled in."""
_MOST_ROWS: Final = 200
_SECONDS: Final = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(d|h|m|s|)", re.IGNORECASE)


def matchers(post: QueryDict, name: str) -> list[dict[str, Any]]:
    """The matchers that were filled in; one value a line, for a value may hold any other sign."""
    found = []
    for row in _rows(post, name):
        values = [line.strip() for line in post.get(f"{row}-values", "").splitlines() if line.strip()]
        label = post.get(f"{row}-label", "")
        if label or values:
            found.append({"label": label, "op": post.get(f"{row}-op", "in"), "values": values})
    return found


def matcher_rows(told: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    """The matchers as rows of a form, and a few empty ones."""
    empty: dict[str, Any] = {"label": "", "op": "in", "values": []}
    return [
        {
            "name": f"{name}-{place}",
            "label": one["label"],
            "op": one["op"],
            "text": "\n".join(one["values"]),
            "lines": min(max(len(one["values"]), 1), 8),
        }
        for place, one in enumerate([*told, *[empty] * SPARE])
    ]


def times(post: QueryDict, name: str) -> list[dict[str, Any]]:
    """The hours that were filled in; a row without days and hours is none."""
    found = []
    for row in _rows(post, name):
        days = sorted({int(day) for day in post.getlist(f"{row}-days") if day.isdecimal() and len(day) < 3})
        begin, end = (post.get(f"{row}-{field}", "").strip() for field in ("from", "to"))
        if days or begin or end:
            found.append({"days": days, "from": begin, "to": end, "timezone": post.get(f"{row}-zone", "").strip()})
    return found


def time_rows(told: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    """The hours as rows of a form, and an empty one in the zone of the last."""
    zone = told[-1]["timezone"] if told else "UTC"
    empty: dict[str, Any] = {"days": [], "from": "", "to": "", "timezone": zone}
    return [
        {
            "name": f"{name}-{place}",
            "days": [(day, word, day in one["days"]) for day, word in enumerate(alert_words.DAY)],
            "from": one["from"],
            "to": one["to"],
            "zone": one["timezone"],
        }
        for place, one in enumerate([*told, empty])
    ]


def labels(post: QueryDict, name: str, before: Sequence[str] = ()) -> list[str]:
    """The labels that were ticked, those from before in their order first: it is part of what a group is known by."""
    ticked = set(post.getlist(name))
    known = [*before, *(label for label in LABELS if label not in before)]
    return [label for label in known if label in ticked]


def choices() -> dict[str, Any]:
    """What the rows' lists offer."""
    return {
        "labels": [(label, words.word(alert_words.LABEL, label)) for label in LABELS],
        "operators": [(op, words.word(alert_words.OPERATOR, op)) for op in OPERATORS],
        "zones": sorted(available_timezones()),
    }


def seconds(text: str) -> float | None:
    """A time such as 30s, 5m, 4h or 1d in seconds; None for an empty one. ValueError, with a sentence, for what is none."""
    written = text.strip()
    if not written:
        return None
    match = _SPAN.fullmatch(written)
    if match is None:
        raise ValueError(gettext("Write a time as 30s, 5m, 4h or 1d."))
    return float(match[1]) * _SECONDS[match[2].lower() or "s"]


def span(value_s: float | None) -> str:
    """Seconds as they are written in a form, in the greatest unit that is whole: `4h`; empty for none."""
    if value_s is None:
        return ""
    unit = next((name for name, size in _SECONDS.items() if value_s and value_s % size == 0), "s")
    return f"{value_s / _SECONDS[unit]:.12g}{unit}"


def moment(text: str) -> datetime | None:
    """A time of a date in UTC, as a browser's field gives it; None for an empty one. ValueError, with a sentence, for what is none."""
    written = text.strip()
    if not written:
        return None
    try:
        told = datetime.fromisoformat(written)
        return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(gettext("Write a time as 2026-11-30 14:00.")) from None


def _rows(post: QueryDict, name: str) -> list[str]:
    """The names of the rows that were sent, in the order of their numbers."""
    numbers = {int(match[1]) for key in post if (match := re.fullmatch(rf"{name}-([0-9]{{1,4}})-[a-z]+", key))}
    return [f"{name}-{number}" for number in sorted(numbers)[:_MOST_ROWS]]
