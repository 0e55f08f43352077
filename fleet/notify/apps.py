"""The notify app."""

from typing import Any

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class NotifyConfig(AppConfig):
    """Registers the app; it looks for news as soon as findings commit some."""

    name = "fleet.notify"
    verbose_name = pgettext_lazy("app", "Notifications")

    def ready(self) -> None:
        """Listen to findings."""
        from fleet.findings.signals import transitions_written

        transitions_written.connect(_look, dispatch_uid="fleet.notify.route_transitions")


def _look(**_: Any) -> None:
    from fleet.notify.tasks import enqueue, route_transitions

    enqueue(route_transitions)
