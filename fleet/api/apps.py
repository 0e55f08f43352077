"""The api app."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    """Registers the app and its additions to the OpenAPI schema."""

    name = "fleet.api"

    def ready(self) -> None:
        """Load the additions."""
        from fleet.api import schema  # noqa: F401 - registers itself
