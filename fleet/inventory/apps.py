"""The inventory app."""

from django.apps import AppConfig


class InventoryConfig(AppConfig):
    """Registers the app."""

    name = "fleet.inventory"
