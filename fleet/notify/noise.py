"""How noisy each rule is: alerts by week, how many anybody acted on, what a rule in shadow would have said."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final

from django.utils import timezone

from fleet.findings.models import Finding, Transition
from fleet.notify.models import Delivery
from fleet.notify.quieting import FIRES

ACTED: Final = ("accepted", "dismissed", "applied")
"""Moves of the advice that show that somebody did something about it."""
FEW: Final = 5
"""Alerts below which a rule that nobody acts on is not called so: it may not have had its chance."""


@dataclass(slots=True)
class Noise:
    """One rule in one week, which begins on Monday in UTC."""

    rule: str
    week: date
    alerts: int = 0
    noisy: int = 0
    acknowledged: int = 0
    acted_on: int = 0
    in_shadow: int = 0
    messages: int = 0
    lasted_s: list[float] = field(default_factory=list)

    @property
    def median_s(self) -> float | None:
        """The median time from firing to the end, in seconds, of those that ended; None where none did."""
        return statistics.median(self.lasted_s) if self.lasted_s else None


def by_week(weeks: int, now: datetime | None = None) -> list[Noise]:
    """Each rule in each of the last so many weeks, this one included; the newest week first, in it the noisiest rule."""
    now = now or timezone.now()
    first = _monday(now) - timedelta(weeks=weeks - 1)
    since = datetime.combine(first, datetime.min.time(), now.tzinfo)
    found: dict[tuple[str, date], Noise] = {}
    fired: dict[int, tuple[Noise, datetime]] = {}

    def of(rule: str, at: datetime) -> Noise:
        return found.setdefault((rule, _monday(at)), Noise(rule, _monday(at)))

    firing = Transition.objects.filter(axis="condition", before__in=("", "pending"), after__in=FIRES, at__gte=since, at__lte=now)
    for finding, rule, shadow, after, at in firing.order_by("at", "pk").values_list(
        "finding_id", "finding__rule", "finding__shadow", "after", "at"
    ):
        row = of(rule, at)
        if shadow:
            row.in_shadow += 1
            continue
        row.alerts += 1
        row.noisy += after == "noisy"
        fired[finding] = row, at
    of_alerts = Finding.objects.filter(transitions__in=firing, shadow=False)
    acknowledged = set(of_alerts.exclude(acknowledgements=None).values_list("pk", flat=True))
    moved = set(of_alerts.filter(transitions__axis="advice", transitions__after__in=ACTED).values_list("pk", flat=True))
    for finding, end in of_alerts.exclude(resolved_at=None).values_list("pk", "resolved_at").distinct():
        if finding in fired and end is not None:
            fired[finding][0].lasted_s.append((end - fired[finding][1]).total_seconds())
    for finding in acknowledged | moved:
        if finding in fired:
            fired[finding][0].acknowledged += finding in acknowledged
            fired[finding][0].acted_on += 1
    sent = Delivery.objects.filter(state="sent", lead=None, released_at__gte=since)
    for rule, left in sent.values_list("transition__finding__rule", "released_at"):
        if left is not None:
            of(rule, left).messages += 1
    return sorted(found.values(), key=lambda row: (-row.week.toordinal(), -row.alerts, -row.in_shadow, row.rule))


def nobody_acts_on(rows: Iterable[Noise]) -> Sequence[tuple[str, int]]:
    """Rules that fired at least five times in these weeks and nobody acted on once, with how often; the noisiest first."""
    alerts: dict[str, int] = defaultdict(int)
    acted: dict[str, int] = defaultdict(int)
    for row in rows:
        alerts[row.rule] += row.alerts
        acted[row.rule] += row.acted_on
    idle = [(rule, number) for rule, number in alerts.items() if number >= FEW and not acted[rule]]
    return sorted(idle, key=lambda one: (-one[1], one[0]))


def _monday(at: datetime) -> date:
    return (at - timedelta(days=at.weekday())).date()
