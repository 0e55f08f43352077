"""The tuning app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class TuningConfig(AppConfig):
    """Registers the app: what a site sets of the rules."""

    name = "fleet.tuning"
    verbose_name = pgettext_lazy("app", "Rules")
