"""The findings app."""

from typing import Any

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class FindingsConfig(AppConfig):
    """Registers the app; findings end as soon as their rule may not keep them."""

    name = "fleet.findings"
    verbose_name = pgettext_lazy("app", "Findings")

    def ready(self) -> None:
        """Listen to tuning."""
        from fleet.tuning.signals import rules_changed

        rules_changed.connect(_withdraw, dispatch_uid="fleet.findings.withdraw")


def _withdraw(**_: Any) -> None:
    from django.utils import timezone

    from fleet.findings.lifecycle import withdraw
    from fleet.findings.permitted import Permitted
    from fleet.tuning.in_force import in_force

    force = in_force()
    withdraw(timezone.now(), Permitted(force.known, force.off, force.shadow))
