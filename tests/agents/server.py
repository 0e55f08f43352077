"""A server on loopback that plays the wire contract's other side, as a test tells it to."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from socket import create_connection, create_server
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from wire import codec
from wire.messages import Ack, Batch, Error, Event, FromServer, Hello, Refused, Welcome

TOKEN = "a-token"


class Server:
    """Keeps what it was sent; `on_batch` may answer in place of the ack."""

    def __init__(self) -> None:
        self.hellos: list[Hello] = []
        self.batches: list[Batch] = []
        self.events: list[Event] = []
        self.frames: list[bytes | str] = []
        self.connections = 0
        self.acks = True
        self.on_batch: Callable[[Batch], FromServer | None] | None = None
        self.on_hello: Callable[[Hello], FromServer | None] | None = None
        self.url = ""
        self.open: set[ServerConnection] = set()

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        """HTTP 403 without the token."""
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return connection.respond(403, "no\n")
        return None

    async def talk(self, socket: ServerConnection) -> None:
        """One agent's connection."""
        self.connections += 1
        self.open.add(socket)
        with contextlib.suppress(ConnectionClosed):
            async for frame in socket:
                self.frames.append(frame)
                message = codec.decode_from_agent(frame)
                answer = self._answer(message)
                if answer is not None:
                    await socket.send(codec.encode_text(answer) if isinstance(frame, str) else codec.encode(answer))
        self.open.discard(socket)

    def _answer(self, message: Hello | Batch | Event) -> FromServer | None:
        if isinstance(message, Hello):
            self.hellos.append(message)
            special = self.on_hello(message) if self.on_hello else None
            return special or Welcome(schema=message.schema)
        if isinstance(message, Event):
            self.events.append(message)
            return Ack(boot=message.boot, events=[(message.seq, message.seq)]) if self.acks else None
        self.batches.append(message)
        special = self.on_batch(message) if self.on_batch else None
        if special is not None:
            return special
        return Ack(boot=message.boot, stored=[(message.seq, message.seq)]) if self.acks else None

    async def drop(self) -> None:
        """Cut every connection without a word."""
        for socket in list(self.open):
            socket.transport.abort()
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def running(port: int = 0, **options: Any) -> AsyncIterator[Server]:
    """A listening server."""
    server = Server()
    async with serve(server.talk, "127.0.0.1", port, process_request=server.check, compression=None, **options) as listening:
        server.url = f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}/ws/agent/"
        yield server


class Odd:
    """A server that answers every request with the same bytes, and counts them."""

    url = ""
    connections = 0


@contextlib.contextmanager
def odd_server(answer: bytes) -> Iterator[Odd]:
    """It listens, in a thread."""
    odd = Odd()
    listener = create_server(("127.0.0.1", 0))
    odd.url = f"ws://127.0.0.1:{listener.getsockname()[1]}/ws/agent/"
    is_over = threading.Event()

    def serve_all() -> None:
        while True:
            connection, _ = listener.accept()
            if is_over.is_set():
                connection.close()
                return
            odd.connections += 1
            with connection, contextlib.suppress(OSError):
                connection.settimeout(5)
                connection.recv(1 << 16)
                connection.sendall(answer)

    thread = threading.Thread(target=serve_all, daemon=True)
    thread.start()
    try:
        yield odd
    finally:
        is_over.set()
        with contextlib.suppress(OSError):
            create_connection(listener.getsockname(), 5).close()
        thread.join(10)
        listener.close()


async def until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until `condition` holds; AssertionError when it does not within the time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def refuse(batch: Batch, code: str) -> Ack:
    """An ack that refuses one batch."""
    return Ack(boot=batch.boot, refused=[Refused(batch.seq, code)])


def error(code: str, seq: int | None = None) -> Error:
    """An error frame."""
    return Error(code=code, detail="because", seq=seq)
