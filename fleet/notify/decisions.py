"""Where an alert goes, when, and why not elsewhere. Pure: the router does what is decided here, the dry run shows it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, Literal, TypeAlias, get_args

from advisor.finding import SEVERITIES
from fleet.notify import hours
from fleet.notify.matchers import Labels, Matchers, fits
from fleet.notify.models import Route
from fleet.notify.sayings import Saying, said

What: TypeAlias = Literal["told", "muted", "not_taken"]
WHATS: Final = get_args(What)
GROUPED_BY: Final = ("rule", "severity")
"""What alerts of a message have in common where a route does not say."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One change of an alert: its finding, what became of it (firing, noisy, resolved; of advice a verdict), and its labels."""

    finding: int
    after: str
    severity_rank: int
    labels: Labels
    cause: "Alert | None" = None
    """The alert that explains it, where people are told of that one: routes that take it need not tell of its consequences."""


@dataclass(frozen=True, slots=True)
class Quieting:
    """A silence (`equal` empty, no `source`) or an inhibition with the firing alerts that its source fits."""

    name: str
    matchers: Matchers
    equal: Sequence[str] = ()
    sources: Sequence[tuple[int, Labels]] | None = None
    """Firing alerts that inhibit; None: it is a silence."""


@dataclass(frozen=True, slots=True)
class Quiet:
    """What keeps alerts quiet at the moment."""

    silences: Sequence[Quieting] = ()
    inhibitions: Sequence[Quieting] = ()
    in_maintenance: Collection[str] = frozenset()
    """Names of nodes."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What one route does with one alert. `why`: of what is not told. `not_before`: a held alert's time."""

    route: Route
    what: What
    why: Saying | None = None
    not_before: datetime | None = None


def group_of(route: Route, labels: Labels) -> dict[str, str]:
    """What alerts of one message of the route have in common, by label; a label that the alert lacks is empty."""
    return {label: ", ".join(labels.get(label, ())) for label in route.group_by or GROUPED_BY}


def key_of(group: Mapping[str, str]) -> str:
    """The group's key, within its route."""
    return sha256("\x1f".join(f"{label}={value}" for label, value in group.items()).encode()).hexdigest()


def decide(alert: Alert, routes: Sequence[Route], quiet: Quiet, at: datetime) -> list[Decision]:
    """What each route does with the alert, in the order in which they are asked."""
    everywhere = why_quiet(alert, quiet)
    told_of_cause = takers(alert.cause, routes) if alert.cause else frozenset()
    decisions: list[Decision] = []
    for route, why in _asked(alert, routes):
        if why is not None:
            decisions.append(Decision(route, "not_taken", why))
        elif muted := why_follows(alert, route, told_of_cause) or everywhere:
            decisions.append(Decision(route, "muted", muted))
        else:
            begins = hours.begins(route.active_times, at)
            decisions.append(Decision(route, "told", None, begins if begins > at else None))
    return decisions


def takers(alert: Alert, routes: Iterable[Route]) -> frozenset[int]:
    """The routes that take the alert, quiet or not."""
    return frozenset(route.pk for route, why in _asked(alert, routes) if why is None)


def _asked(alert: Alert, routes: Iterable[Route]) -> Iterator[tuple[Route, Saying | None]]:
    """The routes in the order in which they are asked, each with why it does not take the alert; None where it does."""
    taken_by: Route | None = None
    for route in sorted(routes, key=lambda one: (one.position, one.pk)):
        why = said("after_last", route=taken_by.name) if taken_by else _why_not(alert, route)
        if why is None and route.last:
            taken_by = route
        yield route, why


def why_follows(alert: Alert, route: Route, told_of_cause: Collection[int]) -> Saying | None:
    """Why the route need not tell of a consequence: it tells of the cause. A route that does not take the cause tells of it all the same."""
    if alert.cause is None or alert.after == "resolved" or route.pk not in told_of_cause:
        return None
    return said("consequence", cause=alert.cause.finding)


def _why_not(alert: Alert, route: Route) -> Saying | None:
    """Why the route does not take the alert; None where it does."""
    if not route.enabled:
        return said("off")
    least = SEVERITIES.index(route.min_severity) if route.min_severity in SEVERITIES else 0
    if alert.severity_rank < least:
        return said("too_mild", severity=SEVERITIES[alert.severity_rank], least=route.min_severity)
    missing = next((one for one in route.matchers if not fits([one], alert.labels)), None)
    if missing is not None:
        return said("no_match", label=missing["label"], has=", ".join(alert.labels.get(missing["label"], ())) or "–")
    if alert.after == "resolved" and not route.send_resolved:
        return said("no_ends")
    return None


def why_quiet(alert: Alert, quiet: Quiet) -> Saying | None:
    """What keeps the alert quiet on every route; None where nothing does. An end is told wherever its beginning was: a pager waits for it."""
    if alert.after == "resolved":
        return None
    for silence in quiet.silences:
        if fits(silence.matchers, alert.labels):
            return said("silence", comment=silence.name)
    nodes = alert.labels.get("node", ())
    if nodes and quiet.in_maintenance and all(node in quiet.in_maintenance for node in nodes):
        return said("maintenance", node=", ".join(nodes[:5]))
    for inhibition in quiet.inhibitions:
        if source := _inhibited(alert, inhibition):
            return said("inhibition", inhibition=inhibition.name, source=source)
    return None


def _inhibited(alert: Alert, inhibition: Quieting) -> int | None:
    """The firing alert that inhibits this one: never one that the target fits too, or they would silence each other."""
    if not fits(inhibition.matchers, alert.labels):
        return None
    for finding, labels in inhibition.sources or ():
        alike = all(label in labels and labels[label] == alert.labels.get(label) for label in inhibition.equal)
        if finding != alert.finding and alike and not fits(inhibition.matchers, labels):
            return finding
    return None


def release_at(alert: Alert, route: Route, sent_at: datetime | None, at: datetime, *, sent_lately: int) -> datetime:
    """When an alert that the route tells may leave: a critical one at once, unless the route has sent so many already that it is a storm."""
    storm = sent_lately >= route.max_per_minute
    if alert.after == "firing" and alert.severity_rank == len(SEVERITIES) - 1 and not storm:
        return at
    soonest = at + timedelta(seconds=route.group_wait_s)
    if sent_at is None:
        return soonest
    return max(soonest, sent_at + timedelta(seconds=route.group_interval_s))
