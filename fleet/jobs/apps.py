"""The jobs app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class JobsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.jobs"
    verbose_name = pgettext_lazy("app", "Jobs")
