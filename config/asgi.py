"""The ASGI application: HTTP to Django, WebSockets to the agents' socket and the browsers' consumers."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
http = get_asgi_application()  # before the imports below: they need the app registry

from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from django.urls import path  # noqa: E402

from fleet.ingest.socket import agent_socket, lifespan  # noqa: E402
from fleet.live.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": http,
        "lifespan": lifespan,
        "websocket": URLRouter(
            [
                # Agents carry a token, not a cookie: no session, no Origin, no channel layer on this path.
                path("ws/agent/", agent_socket),  # type: ignore[arg-type] # Channels routes ASGI callables with it
                path("ws/live/", AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns)))),
            ]
        ),
    }
)
