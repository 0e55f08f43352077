"""The ASGI application: HTTP to Django, WebSockets to the agents' socket and the browsers' consumers."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
http = get_asgi_application()

from channels.auth import AuthMiddlewareStack  # noqa: E402 - needs the app registry
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402 - needs the app registry
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402 - needs the app registry
from django.conf import settings  # noqa: E402 - needs the app registry
from django.core.signals import request_finished  # noqa: E402 - needs the app registry
from django.db import connections  # noqa: E402 - needs the app registry
from django.urls import path  # noqa: E402 - needs the app registry

from config.lifespan import Service, lifespan  # noqa: E402 - needs the app registry
from fleet.ingest.socket import AgentSocket  # noqa: E402 - needs the app registry
from fleet.live.consumers import hub  # noqa: E402 - needs the app registry
from fleet.live.routing import websocket_urlpatterns  # noqa: E402 - needs the app registry


def _leave_no_connection(**_: object) -> None:
    """Every request has a thread of its own: what CONN_MAX_AGE keeps for the next one there, nobody would use or close."""
    connections.close_all()


request_finished.connect(_leave_no_connection)
agents = AgentSocket()
services: list[Service] = [*([agents] if settings.FETTLE_INGEST else []), hub()]

application = ProtocolTypeRouter(
    {
        "http": http,
        "lifespan": lifespan(services),
        "websocket": URLRouter(
            [
                # Agents carry a token, not a cookie: no session, no Origin, no channel layer on this path.
                path("ws/agent/", agents),  # type: ignore[arg-type] # Django's stubs know views alone, Channels routes any ASGI callable
                path("ws/live/", AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))),
            ]
        ),
    }
)
