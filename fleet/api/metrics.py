"""/metrics: what Prometheus may know of the server and the fleet, in a page whose length does not grow with it.

The readings of single GPUs are on a page of their own, gpu_metrics.py.
"""

from typing import Any, Final

from django.http import HttpResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from rest_framework.request import Request
from rest_framework.views import APIView

from fleet.api.families import FleetCollector

REGISTRY: Final = CollectorRegistry()
REGISTRY.register(FleetCollector())


class MetricsView(APIView):
    """The page, for a person with a session and for a program with a token."""

    also_read_by = ("metrics",)
    schema = None  # no part of the REST API

    def get(self, request: Request) -> HttpResponse:
        """The text that the caller's Accept asks for: Prometheus's or OpenMetrics."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return HttpResponse(encode(REGISTRY), content_type=content_type, headers={"Cache-Control": "no-store"})

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Whatever the Accept: the encoder above reads it."""
        return super().perform_content_negotiation(request, force=True)
