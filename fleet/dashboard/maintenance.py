"""Maintenance windows of nodes: the annotation `maintenance` with from and until, made, listed and ended."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils import timezone
from django.utils.translation import gettext

from fleet.accounts.models import User
from fleet.annotations.matching import is_pattern
from fleet.annotations.models import Annotation
from fleet.annotations.targets import wrong_target
from fleet.annotations.telling import TellError, Told, tell
from fleet.dashboard.templatetags.units import utc
from fleet.inventory.models import Node
from fleet.jobs.devices import DeviceError
from fleet.jobs.hosts import hosts

KEY: Final = "maintenance"
MAY: Final = "annotations.change_annotation"
LONGEST: Final = timedelta(days=366)
MOST: Final = 500


def windows() -> list[Annotation]:
    """The windows that are kept, those that are to come or under way before those that are over."""
    rows = Annotation.objects.filter(scope="node", key=KEY, value=True)
    now = timezone.now()
    return sorted(rows, key=lambda row: (is_over(row, now), row.at, row.target))


def is_over(row: Annotation, now: datetime) -> bool:
    """Whether the window counts no more."""
    return row.until is not None and row.until <= now


def nodes(text: str) -> list[str]:
    """The nodes that are named: lists as Slurm writes them, one a line, and patterns. ValueError, with a sentence, for what is none."""
    found: dict[str, None] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        try:
            named = (line,) if is_pattern(line) else hosts(line)
        except DeviceError as error:
            raise ValueError(str(error)) from None
        found |= dict.fromkeys(named)
    if not found:
        raise ValueError(gettext("Name a node."))
    if len(found) > MOST:
        raise ValueError(gettext("At most {most} nodes at once.").format(most=MOST))
    known = set(Node.objects.filter(name__in=list(found)).values_list("name", flat=True))
    for name in found:
        if wrong := wrong_target("node", name):
            raise ValueError(wrong)
        if not is_pattern(name) and name not in known:
            raise ValueError(gettext("There is no node {name}.").format(name=name[:80]))
    return list(found)


def wrong(names: Sequence[str], starts: datetime | None, until: datetime | None) -> dict[str, str]:
    """What is wrong with new windows, by field; empty where nothing is."""
    now = timezone.now()
    begin = starts or now
    if until is None or until <= max(begin, now):
        says = gettext("Say when it ends: later than now, and than it begins.")
        return {"until": says}
    if until - max(begin, now) > LONGEST:
        return {"until": gettext("A window lasts a year at most.")}
    for row in Annotation.objects.filter(scope="node", key=KEY, value=True, target__in=names).exclude(until__lte=now):
        if begin > max(now, row.at) or until <= row.at:
            says = gettext("{node} has a window from {start} to {end} already, and a node has one at a time: end that first.")
            return {"nodes": says.format(node=row.target, start=utc(row.at), end=utc(row.until))}
    return {}


def keep(names: Sequence[str], starts: datetime | None, until: datetime, by: User) -> Mapping[str, str]:
    """Tell the windows; what is wrong, by field, where the site holds too many annotations."""
    told: list[Told] = [
        {"scope": "node", "target": name, "key": KEY, "value": True, "at": starts, "until": until} for name in names
    ]
    try:
        tell(told, by)
    except TellError as error:
        return {"nodes": str(error)}
    return {}


def end(row: Annotation, by: User) -> bool:
    """End the window now; one that is still to come is taken away. False when it is over."""
    now = timezone.now()
    if is_over(row, now):
        return False
    if row.at > now:
        row.delete()
        return True
    tell([{"scope": "node", "target": row.target, "key": KEY, "value": True, "at": row.at, "until": now}], by)
    return True


def shown(row: Annotation, now: datetime) -> dict[str, Any]:
    """The window with whether it holds now."""
    return {"row": row, "state": "over" if is_over(row, now) else "coming" if row.at > now else "current"}
