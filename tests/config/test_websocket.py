"""Peers that do not read are cut off, whichever application serves them; a real uvicorn, its patience made short."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from config import websocket
from tests.deaf import Deaf, deaf
from tests.serving import free_port

Application = Callable[[Any, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]
FRAME = {"type": "websocket.send", "bytes": b"x" * 100_000}


class Served:
    """One application, what became of its last connection, and the server's own books."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.ended = asyncio.Event()
        self.server = uvicorn.Server(
            uvicorn.Config(
                self, port=free_port(), ws=websocket.WebSocket, lifespan="off", log_level="warning", ws_ping_interval=None
            )
        )
        self.url = f"ws://127.0.0.1:{self.server.config.port}/"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Accept, and let the application go on."""
        await receive()
        await send({"type": "websocket.accept"})
        try:
            await self._application(scope, receive, send)
        finally:
            self.ended.set()

    async def has_none(self, seconds: float = 15.0) -> bool:
        """True once the server has no connection any more."""
        for _ in range(int(seconds * 20)):
            if not self.server.server_state.connections:
                return True
            await asyncio.sleep(0.05)
        return False


@asynccontextmanager
async def served(application: Application) -> AsyncIterator[Served]:
    """A running server."""
    made = Served(application)
    task = asyncio.create_task(made.server.serve())
    while not made.server.started:
        await asyncio.sleep(0.02)
    try:
        yield made
    finally:
        made.server.should_exit = True
        made.server.force_exit = True
        await task


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fractions of a second."""
    monkeypatch.setattr(websocket, "TAKES_S", 0.5)
    monkeypatch.setattr(websocket, "LINGER_S", 0.5)


async def with_deaf(server: Served, then: Callable[[Deaf], None]) -> None:
    """Meet the server deaf, in a thread."""

    def meet() -> None:
        with deaf(server.url) as peer:
            then(peer)

    await asyncio.to_thread(meet)


def gone(peer: Deaf) -> None:
    """It was ended for good."""
    assert peer.is_gone()


async def test_who_takes_nothing_is_cut_off_while_an_application_sends() -> None:
    """What waits in `send` raises, the application ends, the connection is gone."""

    async def talk(scope: Any, receive: Any, send: Any) -> None:
        while True:
            await send(FRAME)

    async with served(talk) as server:
        await with_deaf(server, gone)

        assert server.ended.is_set()
        assert await server.has_none()


async def test_what_is_left_when_an_application_ends_is_not_kept_for_ever() -> None:
    """uvicorn alone waits until the peer has taken it."""

    async def once(scope: Any, receive: Any, send: Any) -> None:
        await send(FRAME | {"bytes": b"x" * 20_000_000})

    async with served(once) as server:
        await with_deaf(server, gone)

        assert await server.has_none()


async def test_an_application_can_end_a_connection_at_once() -> None:
    """By the abort in its scope; `receive` tells of the end."""

    async def cut(scope: Any, receive: Any, send: Any) -> None:
        await send(FRAME | {"bytes": b"x" * 20_000_000})
        scope["extensions"]["fettle"]["abort"]()
        assert (await receive())["type"] == "websocket.disconnect"

    async with served(cut) as server:
        await with_deaf(server, gone)

        assert server.ended.is_set()
        assert await server.has_none()


async def test_pings_of_who_reads_no_pong_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of uvicorn's own bounds what it answers to pings."""
    sizes: list[int] = []

    async def listen(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    async with served(listen) as server:

        def ping(peer: Deaf) -> None:
            for _ in range(3):
                peer.fill()
                sizes.extend(one.transport.get_write_buffer_size() for one in server.server.server_state.connections)

        monkeypatch.setattr(websocket, "TAKES_S", 60.0)
        await with_deaf(server, ping)

        assert max(sizes) > 0
        assert max(sizes) < 1_000_000


async def test_who_reads_slowly_is_served() -> None:
    """As long as something is taken, nobody is cut off."""
    from websockets.asyncio.client import connect

    async def talk(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(40):
            await send(FRAME)
        await receive()

    async with served(talk) as server, connect(server.url, max_queue=1, compression=None, proxy=None) as reader:
        read = 0
        for _ in range(40):
            read += len(await reader.recv())
            await asyncio.sleep(0.05)

        assert read == 4_000_000
