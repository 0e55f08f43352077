"""The app of jobs' reports."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class ReportsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.reports"
    verbose_name = pgettext_lazy("app", "Reports")
