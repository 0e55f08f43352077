"""The ingest app."""

from django.apps import AppConfig


class IngestConfig(AppConfig):
    """Registers the app."""

    name = "fleet.ingest"
