"""Alertmanager's API v2 as a target of Apprise's: `alertmanagers://host/` pushes alerts into a site's Alertmanager.

    alertmanager://host:9093/            without TLS
    alertmanagers://user:password@host/prefix/?token=TOKEN&+X-Scope-OrgID=fleet&:env=prod

`+` begins a header and `:` a label that each alert gets; `token` is sent as a bearer token.
"""

from datetime import datetime, timedelta
from json import dumps
from typing import Any, Final

from apprise import NotifyType
from apprise.plugins.base import NotifyBase
from django.utils import timezone

from fleet.notify.heard import http
from fleet.notify.targets.alerted import Alerted

LASTS: Final = timedelta(days=30)
"""How long Alertmanager keeps an alert of whose end it is not told."""


class NotifyAlertmanager(Alerted, NotifyBase):
    """One request with all alerts: labels name an alert, so its end bears those of its beginning."""

    by_labels = True
    service_name = "Alertmanager"
    service_url = "https://prometheus.io/docs/alerting/latest/alertmanager/"
    protocol = "alertmanager"
    secure_protocol = "alertmanagers"
    request_rate_per_sec = 0
    title_maxlen = 250
    templates = (
        "{schema}://{host}",
        "{schema}://{host}:{port}",
        "{schema}://{user}:{password}@{host}",
        "{schema}://{user}:{password}@{host}:{port}",
    )
    template_tokens = dict(
        NotifyBase.template_tokens,
        host={"name": "Hostname", "type": "string", "required": True},
        port={"name": "Port", "type": "int", "min": 1, "max": 65535},
        user={"name": "Username", "type": "string"},
        password={"name": "Password", "type": "string", "private": True},
    )
    template_args = dict(NotifyBase.template_args, token={"name": "Bearer token", "type": "string", "private": True})
    template_kwargs = {"headers": {"name": "HTTP header", "prefix": "+"}, "labels": {"name": "Label", "prefix": ":"}}

    def __init__(
        self, token: str | None = None, headers: dict[str, str] | None = None, labels: dict[str, str] | None = None, **words: Any
    ) -> None:
        super().__init__(**words)
        self.token, self.headers, self.labels = token, dict(headers or {}), dict(labels or {})
        self.fullpath = str(words.get("fullpath") or "/")

    def send(self, body: str, title: str = "", notify_type: NotifyType = NotifyType.INFO, **words: Any) -> bool:
        """Push the alerts; true when Alertmanager took them."""
        if not self.alerts:
            return True
        now = timezone.now()
        newest = {tuple(sorted(alert.labels.items())): alert for alert in self.alerts}  # of what begins and ends, the end
        pushed = [
            {
                "labels": {**alert.labels, **self.labels},
                "annotations": {"summary": alert.title, "description": alert.summary, **alert.details},
                "startsAt": _written(alert.starts_at),
                "endsAt": _written(now + LASTS if alert.firing else (alert.ends_at or now)),
                **({"generatorURL": alert.link} if alert.link else {}),
            }
            for alert in newest.values()
        ]
        headers = {"User-Agent": self.app_id, "Content-Type": "application/json", **self.headers}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        place = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "https" if self.secure else "http"
        port = f":{self.port}" if isinstance(self.port, int) else ""
        self.throttle()
        try:
            answer = http.post(
                f"{scheme}://{place}{port}{self.fullpath.rstrip('/')}/api/v2/alerts",
                data=dumps(pushed),
                headers=headers,
                auth=(self.user, self.password or "") if self.user and not self.token else None,
                verify=self.verify_certificate,
                timeout=self.request_timeout,
                allow_redirects=self.redirects,
            )
        except http.RequestException:
            self.logger.warning("A connection error occurred sending to Alertmanager.")
            return False
        if answer.status_code != 200:
            self.logger.warning("Alertmanager answered %d.", answer.status_code)
        return bool(answer.status_code == 200)

    @property
    def url_identifier(self) -> tuple[Any, ...]:
        """What names the target among others."""
        return (
            self.secure_protocol if self.secure else self.protocol,
            self.user,
            self.password,
            self.host,
            self.port,
            self.fullpath,
        )

    def url(self, privacy: bool = False, *args: Any, **words: Any) -> str:
        """The URL, or with `privacy` one that shows no secret."""
        params = self.url_parameters(*args, privacy=privacy, **words)
        if self.token:
            params["token"] = self.pprint(self.token, privacy, mode="*") if privacy else self.token
        params |= {f"+{name}": "****" if privacy else value for name, value in self.headers.items()}
        params |= {f":{name}": value for name, value in self.labels.items()}
        login = (
            f"{self.quote(self.user, safe='')}:{'****' if privacy else self.quote(self.password or '', safe='')}@"
            if self.user
            else ""
        )
        scheme = self.secure_protocol if self.secure else self.protocol
        port = f":{self.port}" if isinstance(self.port, int) else ""
        return f"{scheme}://{login}{self.host}{port}{self.fullpath}?{self.urlencode(params)}"

    @staticmethod
    def parse_url(url: str) -> dict[str, Any] | None:
        """The URL's parts; None where it names no host."""
        found: dict[str, Any] | None = NotifyBase.parse_url(url, verify_host=True)
        if not found:
            return None
        unquote = NotifyBase.unquote
        if found["qsd"].get("token"):
            found["token"] = unquote(found["qsd"]["token"])
        found["headers"] = {unquote(name): unquote(value) for name, value in found["qsd+"].items()}
        found["labels"] = {unquote(name): unquote(value) for name, value in found["qsd:"].items()}
        return found


def _written(at: datetime) -> str:
    return at.isoformat()
