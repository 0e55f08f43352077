"""The notify app."""

from django.apps import AppConfig


class NotifyConfig(AppConfig):
    """Registers the app."""

    name = "fleet.notify"
