"""The app of jobs' reports."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class ReportsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.reports"
    verbose_name = pgettext_lazy("app", "Reports")

    def ready(self) -> None:
        """Hear what jobs tell."""
        from fleet.jobs.signals import held_otherwise
        from fleet.reports import outdated

        held_otherwise.connect(outdated.held_otherwise, dispatch_uid="fleet.reports.outdated")
