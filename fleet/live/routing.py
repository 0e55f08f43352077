"""Where browsers' WebSockets lead."""

from django.urls import path

from fleet.live.consumers import LiveConsumer

websocket_urlpatterns = [path("", LiveConsumer.as_asgi())]
