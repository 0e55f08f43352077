"""A route and an inhibition as forms: what was filled in, and what is wrong with it by field."""

from collections.abc import Mapping
from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext

from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.dashboard import alert_form
from fleet.notify import checks
from fleet.notify.models import Inhibition, Route

SPANS: Final = ("group_wait_s", "group_interval_s", "repeat_every_s", "escalate_after_s")
NUMBERS: Final = ("position", "max_per_minute")
TICKS: Final = ("enabled", "last", "send_resolved")
MAY_BE_EMPTY: Final = ("repeat_every_s", "escalate_after_s")
LONGEST_NAME: Final = 100


def of_route(route: Route) -> dict[str, Any]:
    """The route as its form shows it, without its URL."""
    shown = {name: getattr(route, name) for name in ("name", "min_severity", "language", "matchers", "active_times", "group_by")}
    shown |= {name: getattr(route, name) for name in (*TICKS, *NUMBERS)}
    return shown | {name: alert_form.span(getattr(route, name)) for name in SPANS} | {"escalate_to": route.escalate_to_id}


def read_route(post: QueryDict, route: Route | None) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    """What was filled in, as the form shows it again; the fields to keep; and what is wrong, by field."""
    before = route.group_by if route else ()
    asked: dict[str, Any] = {name: post.get(name, "").strip() for name in ("name", "min_severity", "language", *NUMBERS, *SPANS)}
    asked |= {name: post.get(name) == "on" for name in TICKS}
    asked["matchers"] = alert_form.matchers(post, "matchers")
    asked["active_times"] = alert_form.times(post, "times")
    asked["group_by"] = alert_form.labels(post, "group_by", before)
    target = post.get("escalate_to", "")
    asked["escalate_to"] = int(target) if target.isdecimal() and len(target) < 19 else None
    fields = {name: asked[name] for name in asked if name not in (*NUMBERS, *SPANS, "escalate_to")}
    wrong = _name(Route, asked["name"], route, gettext("There is a route of this name."))
    for name in NUMBERS:
        if asked[name].isdecimal() and len(asked[name]) < 9:
            fields[name] = int(asked[name])
        else:
            wrong[name] = gettext("This is a whole number.")
    for name in SPANS:
        try:
            fields[name] = alert_form.seconds(asked[name])
            if fields[name] is None and name not in MAY_BE_EMPTY:
                wrong[name] = gettext("Write a time as 30s, 5m, 4h or 1d.")
        except ValueError as error:
            wrong[name] = str(error)
    fields["escalate_to"] = Route.objects.filter(pk=asked["escalate_to"]).first() if asked["escalate_to"] else None
    url = post.get("url", "").strip()
    if url or route is None:
        fields["url"] = url
    said = checks.of_route(fields, route)
    if route is None and not url:
        said["url"] = gettext("A route needs a URL.")
    elif len(url) > 2000:
        said["url"] = gettext("Write {most} characters at most.").format(most=2000)
    return asked, fields, said | wrong


def of_inhibition(row: Inhibition) -> dict[str, Any]:
    """The inhibition as its form shows it."""
    return {name: getattr(row, name) for name in ("name", "source", "target", "equal", "enabled")}


def read_inhibition(post: QueryDict, row: Inhibition | None) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields to keep, and what is wrong with them, by field."""
    fields: dict[str, Any] = {
        "name": post.get("name", "").strip(),
        "source": alert_form.matchers(post, "source"),
        "target": alert_form.matchers(post, "target"),
        "equal": alert_form.labels(post, "equal", row.equal if row else ()),
        "enabled": post.get("enabled") == "on",
    }
    return fields, checks.of_inhibition(fields) | _name(
        Inhibition, fields["name"], row, gettext("There is an inhibition of this name.")
    )


def _name(kind: type[Route] | type[Inhibition], name: str, row: Any, taken: str) -> dict[str, str]:
    """What is wrong with a name; messages and lists bear it."""
    if not name:
        return {"name": gettext("Give it a name.")}
    if not is_plain(name):
        return {"name": str(REFUSED)}
    if len(name) > LONGEST_NAME:
        return {"name": gettext("Write {most} characters at most.").format(most=LONGEST_NAME)}
    return {"name": taken} if checks.is_taken(kind, name, row) else {}


def rows_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The rows of a route's form."""
    return {
        "matchers": alert_form.matcher_rows(asked["matchers"], "matchers"),
        "times": alert_form.time_rows(asked["active_times"], "times"),
    }
