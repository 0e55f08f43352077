"""Where an alert would go and why not elsewhere, as the router would decide it now; nothing is written or sent."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from advisor.finding import SEVERITIES
from fleet.findings.models import Finding
from fleet.notify import quieting
from fleet.notify.alert_labels import labels_of
from fleet.notify.decisions import Alert, Decision, decide, group_of, key_of, release_at
from fleet.notify.matchers import Labels
from fleet.notify.models import Group, Route
from fleet.notify.routing import cause_of, with_causes
from fleet.notify.waiting import sent_lately

AFTERS: Final = ("firing", "resolved")
"""What may become of an alert that is tried."""


@dataclass(frozen=True, slots=True)
class Way:
    """What one route would do: the decision, the group, and when its message would leave (None where it would not)."""

    decision: Decision
    group: dict[str, str]
    leaves_at: datetime | None


def of_finding(finding: Finding, at: datetime, after: str = "firing") -> tuple[Labels, list[Way]]:
    """The finding's labels and what each route would do, in the order in which they are asked, were it to become `after` now."""
    labels = labels_of(with_causes([finding]), at)
    alert = Alert(finding.pk, after, finding.severity_rank, labels[finding.pk], cause_of(finding, labels))
    return alert.labels, ways(alert, at)


def of_labels(labels: Labels, at: datetime, after: str = "firing") -> list[Way]:
    """What each route would do with an alert that has these labels; without a severity it is a warning."""
    severity = labels.get("severity", ("warn",))[0]
    return ways(Alert(0, after, SEVERITIES.index(severity), {"severity": (severity,), **labels}), at)


def ways(alert: Alert, at: datetime) -> list[Way]:
    """What each route would do with the alert."""
    lately = sent_lately(at)
    decisions = decide(alert, list(Route.objects.all()), quieting.now(at), at)
    return [_way(alert, decision, lately[decision.route.pk], at) for decision in decisions]


def _way(alert: Alert, decision: Decision, sent: int, at: datetime) -> Way:
    group = group_of(decision.route, alert.labels)
    if decision.what != "told":
        return Way(decision, group, None)
    kept = Group.objects.filter(route=decision.route, key=key_of(group)).first()
    leaves = release_at(alert, decision.route, kept.sent_at if kept else None, at, sent_lately=sent)
    return Way(decision, group, max(leaves, decision.not_before or leaves))
