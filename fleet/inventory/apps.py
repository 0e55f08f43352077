"""The inventory app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class InventoryConfig(AppConfig):
    """Registers the app."""

    name = "fleet.inventory"
    verbose_name = pgettext_lazy("app", "Inventory")
