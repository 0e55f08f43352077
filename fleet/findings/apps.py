"""The findings app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class FindingsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.findings"
    verbose_name = pgettext_lazy("app", "Findings")
