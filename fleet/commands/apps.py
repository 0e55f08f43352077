"""The commands app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class CommandsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.commands"
    verbose_name = pgettext_lazy("app", "Commands to agents")
