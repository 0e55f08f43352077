"""The alert on a finding's page: who was told, who looks after it, what keeps it quiet."""

from typing import Any, Final

from django.utils import timezone

from fleet.dashboard import alert_words, tellings, words
from fleet.dashboard.views.deliveries import log, shown
from fleet.findings.models import Finding
from fleet.notify import quieting
from fleet.notify.alert_labels import labels_of
from fleet.notify.decisions import Alert, why_quiet
from fleet.notify.quieting import FIRES

NEWEST: Final = 10


def block(finding: Finding) -> dict[str, Any]:
    """What the page shows of the finding as an alert."""
    rows = log().filter(transition__finding=finding)
    newest = [shown(one) for one in rows[:NEWEST]]
    fires = finding.resolved_at is None and finding.condition in FIRES and not finding.shadow
    said = [
        {"row": one, "via": words.word(alert_words.VIA, one.via), "past": one.severity_rank < finding.severity_rank}
        for one in finding.acknowledgements.all()
    ]
    return {
        "fires": fires,
        "quiet": _quiet(finding) if fires else "",
        "acknowledgements": said,
        "looked_after": any(not one["past"] for one in said),
        "deliveries": newest,
        "deliveries_total": rows.count() if len(newest) == NEWEST else len(newest),
        "untold": tellings.of([finding.pk])[finding.pk].untold if fires and not newest else [],
    }


def _quiet(finding: Finding) -> str:
    """What keeps it quiet now; empty where nothing does."""
    now = timezone.now()
    labels = labels_of([finding], now)[finding.pk]
    alert = Alert(finding.pk, finding.condition, finding.severity_rank, labels)
    return str(why_quiet(alert, quieting.now(now)) or "")
