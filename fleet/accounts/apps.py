"""The accounts app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Registers the app."""

    name = "fleet.accounts"
