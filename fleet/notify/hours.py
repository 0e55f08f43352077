"""When a route takes alerts: hours of days of the week in a time zone. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

from django.utils.translation import gettext

Hours: TypeAlias = Sequence[Mapping[str, Any]]
MOST: Final = 20
_FIELDS: Final = {"days", "from", "to", "timezone"}
_WEEK: Final = range(7)


def is_active(hours: Hours, at: datetime) -> bool:
    """True within any of them, and always where there are none. One that ends before it begins goes on past midnight."""
    return not hours or any(begin <= at < end for one in hours for begin, end in _spans(one, at))


def begins(hours: Hours, at: datetime) -> datetime:
    """When the next of them begins, at or after `at`: within eight days. `at` itself where there are none or one is now."""
    if is_active(hours, at):
        return at
    return min(begin for one in hours for begin, _ in _spans(one, at) if begin >= at)


def _spans(one: Mapping[str, Any], at: datetime) -> list[tuple[datetime, datetime]]:
    """Its spans around a time, from the day before to eight days after, by the zone's own clock: a day of 23 hours has its hours too."""
    zone = ZoneInfo(one["timezone"])
    first, last = time.fromisoformat(one["from"]), _end(one["to"])
    today = at.astimezone(zone).date()
    days = (today + timedelta(days=step) for step in range(-1, 9))
    spans = []
    for day in days:
        if day.weekday() in one["days"]:
            until = day if last is not None and last > first else day + timedelta(days=1)
            spans.append((datetime.combine(day, first, zone), datetime.combine(until, last or time(), zone)))
    return spans


def _end(written: str) -> time | None:
    """The time of day at which it ends; None for 24:00."""
    return None if written == "24:00" else time.fromisoformat(written)


def problem(hours: object) -> str | None:
    """What is wrong with what somebody wrote as hours, in a sentence; None when they can be used."""
    if not isinstance(hours, list) or len(hours) > MOST:
        return gettext("Times are a list of at most {most}.").format(most=MOST)
    return next((said for one in hours if (said := _problem(one))), None)


def _problem(one: object) -> str | None:
    if not isinstance(one, dict) or set(one) != _FIELDS:
        return gettext("A time has days, from, to and timezone, and nothing else.")
    days = one["days"]
    if not isinstance(days, list) or not days or not all(type(day) is int and day in _WEEK for day in days):
        return gettext("Days are a list of numbers from 0 (Monday) to 6 (Sunday).")
    if not _is_clock(one["from"]) or not (one["to"] == "24:00" or _is_clock(one["to"])):
        return gettext("from and to are times of day such as 09:00; the end of a day is 24:00.")
    if one["from"] == one["to"]:
        return gettext("A time that begins and ends at once holds nothing; write 00:00 to 24:00 for a whole day.")
    if not isinstance(one["timezone"], str) or one["timezone"] not in available_timezones():
        return gettext("The timezone is a name such as Europe/Berlin, Asia/Shanghai or UTC.")
    return None


def _is_clock(written: object) -> bool:
    """HH:MM."""
    if not isinstance(written, str) or len(written) != 5:
        return False
    try:
        time.fromisoformat(written)
    except ValueError:
        return False
    return True
