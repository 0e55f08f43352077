"""The profiles app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class ProfilesConfig(AppConfig):
    """Registers the app."""

    name = "fleet.profiles"
    verbose_name = pgettext_lazy("app", "Profiles")
