"""Who was told of an alert, and why nobody else was: from its deliveries, in sentences."""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db.models import Max
from django.utils.translation import gettext

from fleet.dashboard.templatetags.units import utc
from fleet.findings.models import Transition
from fleet.notify import sayings
from fleet.notify.models import Delivery
from fleet.notify.quieting import FIRES

NAMED: Final = 3
"""Routes by name; more are counted."""


@dataclass(slots=True)
class Untold:
    """A sentence, and the routes that it holds for."""

    why: str
    routes: list[str] = field(default_factory=list)

    @property
    def named(self) -> str:
        """The first few routes, and how many more there are."""
        more = len(self.routes) - NAMED
        listed = ", ".join(self.routes[:NAMED])
        return listed if more <= 0 else gettext("{listed} and {more} more").format(listed=listed, more=more)


@dataclass(slots=True)
class Telling:
    """What became of one alert: when it was last told and to whom, and why others were not."""

    told_at: datetime | None = None
    told: list[str] = field(default_factory=list)
    untold: list[Untold] = field(default_factory=list)

    @property
    def named(self) -> str:
        """The routes that were told, the last one first."""
        return Untold("", self.told).named


def of(findings: Collection[int]) -> dict[int, Telling]:
    """What became of each alert, with a fixed number of queries: of each route the newest delivery counts, and the newest that was sent."""
    rows = Delivery.objects.filter(transition__finding__in=findings, transition__axis="condition").order_by()
    pairs = rows.values("transition__finding", "route")
    sent = pairs.filter(state="sent").annotate(at=Max("sent_at")).values_list("transition__finding", "route__name", "at")
    found: dict[int, Telling] = {pk: Telling() for pk in findings}
    told: dict[int, list[tuple[datetime, str]]] = defaultdict(list)
    for pk, route, at in sent:
        if at is not None:
            told[pk].append((at, route))
    for pk, several in told.items():
        several.sort(reverse=True)
        found[pk].told_at, found[pk].told = several[0][0], [route for _, route in several]
    newest = Delivery.objects.filter(pk__in=pairs.annotate(newest=Max("pk")).values("newest")).exclude(state="sent")
    about = "transition__finding", "route__name", "state", "why_muted", "error", "next_try_at", "group__release_at"
    reasons: dict[int, dict[str, Untold]] = defaultdict(dict)
    for pk, route, state, why, error, next_try, release in newest.order_by("route__position", "route").values_list(*about):
        says = sentence(state, why, error, next_try, release)
        reasons[pk].setdefault(says, Untold(says)).routes.append(route)
    for pk, several_reasons in reasons.items():
        found[pk].untold = list(several_reasons.values())
    silent = {pk for pk, one in found.items() if not one.told and not one.untold}
    if silent:
        fresh = Transition.objects.filter(finding__in=silent, axis="condition", after__in=FIRES, routed_at=None)
        waits = set(fresh.values_list("finding", flat=True))
        for pk in silent:
            found[pk].untold = [Untold(gettext("It is not routed yet.") if pk in waits else gettext("No route takes it."))]
    return found


def sentence(state: str, why_muted: str, error: str, next_try_at: datetime | None, release_at: datetime | None) -> str:
    """Why a delivery has not arrived; empty for one that has."""
    if state == "muted":
        return str(sayings.read(why_muted) or "")
    if state == "waiting":
        return gettext("It waits for others of its group until {time}.").format(time=utc(release_at))
    if state == "failed":
        return gettext("It did not arrive and is tried again at {time}: {error}").format(time=utc(next_try_at), error=error)
    if state == "dead":
        return gettext("It was given up: {error}").format(error=error)
    return gettext("It is on its way.") if state in ("pending", "sending") else ""
