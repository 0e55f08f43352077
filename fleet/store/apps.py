"""The store app."""

from django.apps import AppConfig


class StoreConfig(AppConfig):
    """Registers the app."""

    name = "fleet.store"
