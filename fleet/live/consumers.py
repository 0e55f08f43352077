"""`/ws/live/`: a browser's connection. payloads.py documents what is said on it."""

import asyncio
import contextlib
from functools import cache
from importlib import import_module
from typing import Any, Final

import msgspec
from channels.auth import get_user
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from fleet.ingest.window import ring
from fleet.live import payloads
from fleet.live.exchange import View
from fleet.live.hub import Hub, Subscriber

MAX_MESSAGE: Final = 1000
CHECK_S: Final = 60.0
"""How often a connection's login is looked up again."""
CLOSE_LOGGED_OUT: Final = 4401


class _Subscribe(msgspec.Struct, forbid_unknown_fields=True):
    subscribe: str
    id: int = 0


_decode = msgspec.json.Decoder(_Subscribe).decode


@cache
def hub() -> Hub:
    """This process's hub."""
    return Hub(ring(), settings.REDIS_URL)


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc] # the library has no types
    """Refuses who is not logged in; hands the rest to the hub."""

    channel_layer_alias = "none"  # no channel layer: the hub is enough
    subscriber: Subscriber | None = None
    checking: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept people who are logged in; anyone else gets HTTP 403."""
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            await self.close()
            return
        await self.accept()
        self.subscriber = Subscriber(self._text)
        self.checking = asyncio.get_running_loop().create_task(self._check_login())

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Take a subscription; what cannot be understood is answered and changes nothing."""
        if self.subscriber is None:
            return
        try:
            view = _view(text_data)
        except ValueError as error:
            await self.send(text_data=payloads.error(str(error)))
        else:
            await hub().subscribe(self.subscriber, view)

    async def disconnect(self, code: int) -> None:
        """Leave the hub."""
        if self.checking is not None:
            self.checking.cancel()
        if self.subscriber is not None:
            hub().unsubscribe(self.subscriber)

    async def _text(self, frame: str) -> None:
        await self.send(text_data=frame)

    async def _check_login(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            # Read the session anew: the connection's own copy does not see a logout.
            fresh = import_module(settings.SESSION_ENGINE).SessionStore(self.scope["session"].session_key)
            user: Any = await get_user({"session": fresh})
            if not user.is_authenticated or not user.is_active:
                if self.subscriber is not None:
                    hub().unsubscribe(self.subscriber)
                with contextlib.suppress(OSError, RuntimeError):
                    await self.close(CLOSE_LOGGED_OUT)
                return


def _view(text: str | None) -> View:
    """The view that a message asks for; ValueError, with words for the page, when it asks for none."""
    if text is None or len(text) > MAX_MESSAGE:
        raise ValueError('send a short text: {"subscribe": "fleet"}')
    try:
        wanted = _decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not a subscription: {error}") from None
    if wanted.subscribe == "fleet":
        return View("fleet")
    if wanted.subscribe not in ("node", "gpu"):
        raise ValueError("subscribe to fleet, node or gpu")
    if not 0 < wanted.id < 1 << 53:
        raise ValueError(f"{wanted.subscribe} needs an id")
    return View("node" if wanted.subscribe == "node" else "gpu", wanted.id)
