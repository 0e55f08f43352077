"""The verdicts app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class VerdictsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.verdicts"
    verbose_name = pgettext_lazy("app", "Verdicts")
