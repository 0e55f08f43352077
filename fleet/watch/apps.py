"""The watch app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class WatchConfig(AppConfig):
    """Registers the app."""

    name = "fleet.watch"
    verbose_name = pgettext_lazy("app", "Watch")
