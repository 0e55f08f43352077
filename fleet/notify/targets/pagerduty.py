"""PagerDuty's Events API v2 by Apprise's plugin: one event for each alert, and the end closes the incident that the beginning opened."""

from typing import Any, Final

from apprise import NotifyType
from apprise.plugins.pagerduty import NotifyPagerDuty, PagerDutyAction

from fleet.notify.targets.alerted import Alerted

_SEVERITY: Final = {"critical": "critical", "warn": "warning", "advice": "info", "info": "info"}
_SUMMARY: Final = 1024
"""Characters that PagerDuty takes of a summary."""


class NotifyPagerDutyEvents(Alerted, NotifyPagerDuty):
    """As Apprise's, with the alert's own deduplication key, severity, source and link; what the URL gives of these stays."""

    request_rate_per_sec = 0

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.given = {name for name in ("severity", "click", "class_id", "group") if getattr(self, name)}
        self.own_source = self.source != self.template_tokens["source"]["default"]
        self.own_component = self.component != self.template_tokens["component"]["default"]
        self.own_details = dict(self.details)

    def send(self, body: str, title: str = "", notify_type: NotifyType = NotifyType.INFO, **words: Any) -> bool:
        """Tell each alert; true when PagerDuty took all."""
        for alert in self.alerts:
            self.dedup = alert.key
            self.action = PagerDutyAction.TRIGGER if alert.firing else PagerDutyAction.RESOLVE
            values = {
                "severity": _SEVERITY.get(alert.severity, "info"),
                "click": alert.link or None,
                "class_id": alert.labels.get("alertname"),
                "group": alert.labels.get("cluster"),
            }
            for name, value in values.items():
                if name not in self.given:
                    setattr(self, name, value)
            if not self.own_source:
                self.source = alert.labels.get("node") or alert.labels.get("job") or self.app_id
            if not self.own_component:
                self.component = alert.labels.get("target") or self.app_id
            self.details = {"summary": alert.summary, **alert.labels, **alert.details, **self.own_details}
            if not super().send(body=alert.title[:_SUMMARY], notify_type=notify_type):
                return False
        return True
