"""The live app."""

from django.apps import AppConfig


class LiveConfig(AppConfig):
    """Registers the app."""

    name = "fleet.live"
