"""The accounts app."""

from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class AccountsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.accounts"
    verbose_name = pgettext_lazy("app", "Accounts")
