"""What is wrong with a route, a silence or an inhibition that somebody wrote: sentences by field, for forms and the API alike."""

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import Model
from django.utils import timezone
from django.utils.translation import gettext

from advisor.finding import SEVERITIES
from fleet.notify import deliver, hours, matchers
from fleet.notify.models import LABELS, Route

DAY_S: Final = 86_400.0
BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "group_wait_s": (0, DAY_S),
    "group_interval_s": (0, DAY_S),
    "repeat_every_s": (60, 30 * DAY_S),
    "escalate_after_s": (10, 7 * DAY_S),
    "max_per_minute": (1, 1000),
    "position": (0, 10_000),
}
"""The least and the most of each number of a route, in its unit."""
LONGEST_SILENCE: Final = timedelta(days=366)


def of_route(fields: Mapping[str, Any], route: Route | None = None) -> dict[str, str]:
    """What is wrong with the fields of a route, those of `route` standing for what is not named; empty where nothing is."""
    wrong: dict[str, str | None] = {}
    for name, (low, high) in BOUNDS.items():
        value = fields.get(name)
        if value is not None and not (math.isfinite(value) and low <= value <= high):
            wrong[name] = gettext("This is a number from {low:g} to {high:g}.").format(low=low, high=high)
    if "url" in fields:
        wrong["url"] = deliver.problem(fields["url"])
    if "min_severity" in fields and fields["min_severity"] not in SEVERITIES:
        wrong["min_severity"] = gettext("This is one of: {words}.").format(words=", ".join(SEVERITIES))
    if fields.get("language"):
        known = [code for code, _ in settings.LANGUAGES]
        said = gettext("This is one of: {words}.").format(words=", ".join(known))
        wrong["language"] = None if fields["language"] in known else said
    if "matchers" in fields:
        wrong["matchers"] = matchers.problem(fields["matchers"])
    if "active_times" in fields:
        wrong["active_times"] = hours.problem(fields["active_times"])
    if "group_by" in fields:
        wrong["group_by"] = _labels(fields["group_by"])
    wrong["escalate_to"] = _escalation(fields, route)
    return {name: said for name, said in wrong.items() if said}


def of_silence(fields: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the fields of a new silence; empty where nothing is."""
    wrong = {"matchers": matchers.problem(fields["matchers"], at_least_one=True)}
    starts, ends = fields["starts_at"] or timezone.now(), fields["ends_at"]
    if ends <= starts:
        wrong["ends_at"] = gettext("It ends before it begins.")
    elif ends <= timezone.now():
        wrong["ends_at"] = gettext("This lies in the past: the silence would hold nothing.")
    elif ends - _later(starts) > LONGEST_SILENCE:
        wrong["ends_at"] = gettext("A silence lasts a year at most; switch the rule off, or the route.")
    if not fields["comment"].strip():
        wrong["comment"] = gettext("Say why: people ask at three in the morning.")
    return {name: said for name, said in wrong.items() if said}


def of_inhibition(fields: Mapping[str, Any]) -> dict[str, str]:
    """What is wrong with the fields of an inhibition; empty where nothing is."""
    wrong: dict[str, str | None] = {}
    for name in ("source", "target"):
        if name in fields:
            wrong[name] = matchers.problem(fields[name], at_least_one=True)
    if "equal" in fields:
        wrong["equal"] = _labels(fields["equal"])
    return {name: said for name, said in wrong.items() if said}


def is_taken(kind: type[Model], name: str, row: Any) -> bool:
    """Whether another row of the kind than `row` (None: any) has the name."""
    same = kind._default_manager.filter(name=name)
    return (same if row is None else same.exclude(pk=row.pk)).exists()


def _later(starts: datetime) -> datetime:
    return max(starts, timezone.now())


def _labels(value: object) -> str | None:
    if not isinstance(value, list) or not all(isinstance(one, str) and one in LABELS for one in value):
        return gettext("This is a list of labels: {labels}.").format(labels=", ".join(LABELS))
    return gettext("A label is named twice.") if len(set(value)) < len(value) else None


def _escalation(fields: Mapping[str, Any], route: Route | None) -> str | None:
    """Time and target go together, and nobody escalates to themselves, by whatever way."""
    target = fields.get("escalate_to", route and route.escalate_to)
    after_s = fields.get("escalate_after_s", route and route.escalate_after_s)
    if (target is None) != (after_s is None):
        return gettext("escalate_to and escalate_after_s go together: give both or neither.")
    seen: set[int] = set()
    while target is not None and target.pk not in seen:
        if route is not None and target.pk == route.pk:
            return gettext("The route would escalate to itself.")
        seen.add(target.pk)
        target = target.escalate_to
    return None
