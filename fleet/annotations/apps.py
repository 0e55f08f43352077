"""The annotations app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class AnnotationsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.annotations"
    verbose_name = pgettext_lazy("app", "Annotations")
