"""The dashboard app."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """Registers the app."""

    name = "fleet.dashboard"
