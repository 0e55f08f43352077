"""The store app."""

from collections.abc import Sequence

from django.apps import AppConfig, apps
from django.core import checks


class StoreConfig(AppConfig):
    """Registers the app, and the check of the settings that name a store's server."""

    name = "fleet.store"

    def ready(self) -> None:
        """Let `manage.py check` say what is wrong with the settings of the store."""
        checks.register(server_settings)


def server_settings(app_configs: Sequence[AppConfig] | None, **kwargs: object) -> list[checks.CheckMessage]:
    """An error for each setting of the store's server, and of the receiver that telemetry is forwarded to, that cannot be right."""
    from fleet.store.connect import mistakes
    from fleet.store.forward import forward_mistakes

    if app_configs is not None and apps.get_app_config("store") not in app_configs:
        return []
    return [checks.Error(sentence, id="fleet.store.E001") for sentence in (*mistakes(), *forward_mistakes())]
