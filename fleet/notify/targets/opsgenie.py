"""Opsgenie's Alert API by Apprise's plugin: alerts are named by an alias of ours, so that an end closes what a beginning opened.

Apprise remembers the ids of requests in the process that opened them; another process, or the same one after a restart, could not close them.
"""

from typing import Any, Final

from apprise import NotifyType
from apprise.plugins.opsgenie import OPSGENIE_API_LOOKUP, NotifyOpsgenie, OpsgenieAlertAction

from fleet.notify.heard import http
from fleet.notify.targets.alerted import Alerted

_SUMMARY: Final = 10_000
"""Characters of a summary: Opsgenie takes 15,000 of a description."""
_DETAIL: Final = 400
"""Characters of a detail: it takes 8,000 of all."""
_PRIORITY: Final = {"critical": 1, "warn": 3, "advice": 4, "info": 5}


class NotifyOpsgenieAlerts(Alerted, NotifyOpsgenie):
    """As Apprise's, with an alias and a priority for each alert; what the URL gives of details and tags stays."""

    request_rate_per_sec = 0

    def __init__(self, **words: Any) -> None:
        super().__init__(**words)
        self.own_details, self.own_entity = dict(self.details), self.entity
        self.own_priority = bool(words.get("priority"))

    def send(self, body: str, title: str = "", notify_type: NotifyType = NotifyType.INFO, **words: Any) -> bool:
        """Create or close each alert; true when Opsgenie took all."""
        for alert in self.alerts:
            if not alert.firing:
                url = f"{OPSGENIE_API_LOOKUP[str(self.region_name)]}/{alert.key}/close"
                note = {"source": self.app_desc, "note": alert.title, **({"user": self.user} if self.user else {})}
                taken, _ = self._fetch(http.post, url, note, {"identifierType": "alias"})
                if not taken:
                    return False
                continue
            self.action, self.alias = OpsgenieAlertAction.NEW, alert.key
            self.entity = self.own_entity or alert.labels.get("node") or alert.labels.get("job")
            if not self.own_priority:
                self.priority = _PRIORITY.get(alert.severity, 5)
            told = {**alert.labels, **alert.details, **({"link": alert.link} if alert.link else {}), **self.own_details}
            self.details = {name: str(value)[:_DETAIL] for name, value in told.items()}
            body = "\n".join(filter(None, [alert.summary[:_SUMMARY], alert.link]))
            if not super().send(body=body, title=alert.title, notify_type=notify_type):
                return False
        return True
