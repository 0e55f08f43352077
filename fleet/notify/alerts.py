"""The alerts of a delivery as data, for programs that keep alerts of their own."""

from collections.abc import Iterable
from typing import Final

from django.conf import settings

from fleet.findings import cost
from fleet.findings.content import render
from fleet.findings.models import Finding, Transition
from fleet.notify.alert_labels import labels_of
from fleet.notify.models import Delivery
from fleet.notify.note import Alert
from fleet.notify.plain import named

SCHEMES: Final = ("alertmanager", "alertmanagers", "pagerduty", "opsgenie")
"""Of Apprise's URLs, those whose receivers keep alerts."""
MOST: Final = 500
"""Alerts in one delivery."""


def alerts(delivery: Delivery) -> tuple[Alert, ...]:
    """What the delivery and those that it leads tell, one for each finding; what was measured of advice is no alert."""
    rows = Delivery.objects.filter(lead=delivery).order_by("pk").select_related("transition__finding__node")[: MOST - 1]
    told = [transition for row in (delivery, *rows) if (transition := row.transition).axis != "advice"]
    newest = {transition.finding_id: transition for transition in sorted(told, key=lambda one: one.at)}
    return tuple(alert for transition in newest.values() for alert in _of(transition))


def _of(transition: Transition) -> Iterable[Alert]:
    """The alert, and the ends of what it was before its severity changed: where labels name an alert, that is another one."""
    finding = transition.finding
    firing = transition.after != "resolved"
    says = render(finding)
    details = {"cost": said} if (said := cost.sentence(finding.gpu_hours_a_day)) else {}

    def alert(severity: str, firing: bool, is_relabelling: bool = False) -> Alert:
        return Alert(
            fingerprint=finding.fingerprint,
            firing=firing,
            severity=severity,
            title=f"{named(says.title)} ({place(finding)})",
            summary=named(says.summary),
            link=f"{base}/findings/{finding.pk}/" if (base := settings.FETTLE_BASE_URL.rstrip("/")) else "",
            starts_at=finding.opened_at,
            ends_at=None if firing else transition.at,
            labels=_labels(finding, severity),
            details=details,
            is_relabelling=is_relabelling,
        )

    yield from (alert(before, False, True) for before in _severities_before(finding))
    yield alert(finding.severity, firing)


def _severities_before(finding: Finding) -> list[str]:
    """Severities that it had before this one, by the notes of its changes ("warn -> critical")."""
    notes = finding.transitions.filter(axis="condition", before="firing", after="firing").values_list("note", flat=True)
    return sorted({note.partition(" -> ")[0] for note in notes if " -> " in note} - {finding.severity})


def place(finding: Finding) -> str:
    """The target by the name that people use: a job's, a GPU's with its node's, or a node's."""
    if finding.scope in ("job", "service") or not finding.node:
        return named(finding.target)
    gpus = list(finding.gpus.all())
    return named(" ".join([finding.node.name, *(f"GPU {gpu.index}" for gpu in gpus[:1] if len(gpus) == 1)]))


def _labels(finding: Finding, severity: str) -> dict[str, str]:
    """What names the alert to others: as it was when it began, so that its end bears the labels of its beginning."""
    known = labels_of([finding], finding.opened_at)[finding.pk]
    labels = {name: ", ".join(values) for name, values in known.items() if name != "rule"}
    return labels | {"alertname": finding.rule, "severity": severity, "target": place(finding), "source": "fettle"}
