"""The benches app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class BenchesConfig(AppConfig):
    """Registers the app."""

    name = "fleet.benches"
    verbose_name = pgettext_lazy("app", "Benches")
