"""The api app."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """Registers the app."""

    name = "fleet.api"
