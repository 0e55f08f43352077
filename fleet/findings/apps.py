"""The findings app."""

from django.apps import AppConfig


class FindingsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.findings"
