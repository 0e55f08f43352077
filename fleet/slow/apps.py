"""The app of what changes slowly."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class SlowConfig(AppConfig):
    """Registers the app."""

    name = "fleet.slow"
    verbose_name = pgettext_lazy("app", "History")
