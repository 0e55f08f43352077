"""A connection ends soon after its login does."""

import asyncio
from typing import Any

import pytest
from channels.auth import AuthMiddlewareStack
from channels.db import database_sync_to_async
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore

from fleet.accounts.models import User
from fleet.live import consumers
from fleet.live.consumers import LiveConsumer

pytestmark = pytest.mark.django_db(transaction=True)


def log_in(name: str) -> SessionStore:
    """A person's session, as the login page makes it."""
    user = User.objects.create_user(name, password=name)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return session


class Socket:
    """The ASGI side of one connection."""

    def __init__(self, session: SessionStore) -> None:
        self.sent: list[dict[str, Any]] = []
        self._incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._incoming.put_nowait({"type": "websocket.connect"})
        scope = {"type": "websocket", "path": "/", "headers": [(b"cookie", f"sessionid={session.session_key}".encode())]}
        app = AuthMiddlewareStack(LiveConsumer.as_asgi())
        self.task = asyncio.create_task(app(scope, self._incoming.get, self._take))

    async def _take(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def closed_with(self, seconds: float) -> int | None:
        """The close code that came in this time."""
        for _ in range(int(seconds * 20)):
            if self.sent and self.sent[-1]["type"] == "websocket.close":
                return int(self.sent[-1]["code"])
            await asyncio.sleep(0.05)
        return None

    async def end(self) -> None:
        """The browser goes."""
        self._incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await asyncio.wait_for(self.task, 5)


@pytest.mark.parametrize("how", ["logs out", "is deactivated", "changes the password"])
async def test_it_closes_when_the_person(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """At the next look the socket closes with 4401; until then it stays open."""
    monkeypatch.setattr(consumers, "CHECK_S", 0.2)
    session = await database_sync_to_async(log_in)("ann")
    socket = Socket(session)
    assert await socket.closed_with(0.7) is None
    assert socket.sent[0]["type"] == "websocket.accept"

    def end_login() -> None:
        user = User.objects.get()
        if how == "logs out":
            session.flush()
        elif how == "is deactivated":
            user.is_active = False
            user.save()
        else:
            user.set_password("another")
            user.save()

    await database_sync_to_async(end_login)()

    assert await socket.closed_with(5) == 4401
    await socket.end()
