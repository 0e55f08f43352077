"""What an agent with everything on talks to, on loopback: a server that takes its frames, and one for scrapes, engines and OTLP."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from wire import codec
from wire.messages import Ack, Batch, Event, Hello, Welcome

SCRAPE_S: Final = 15.0
"""Prometheus asks as often by default."""
_ENGINE: Final = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 3
vllm:num_requests_waiting{model_name="m"} 1
vllm:generation_tokens_total{model_name="m"} 12345
vllm:prompt_tokens_total{model_name="m"} 23456
vllm:kv_cache_usage_perc{model_name="m"} 0.25
"""


class Sink:
    """A server that takes everything and acks it."""

    def __init__(self) -> None:
        self.batches = 0
        self.events: list[str] = []
        self.last: Batch | None = None
        self.hello: Hello | None = None

    async def serve(self, socket: Any) -> None:
        """One agent's connection."""
        from websockets.exceptions import ConnectionClosed

        with contextlib.suppress(ConnectionClosed):
            async for frame in socket:
                message = codec.decode_from_agent(frame)
                if isinstance(message, Hello):
                    self.hello = message
                    await socket.send(codec.encode_text(Welcome(schema=message.schema)))
                elif isinstance(message, Batch):
                    self.batches += 1
                    self.last = message
                    await socket.send(codec.encode(Ack(boot=message.boot, stored=[(message.seq, message.seq)])))
                elif isinstance(message, Event):
                    self.events.append(f"{message.kind} {message.text}")
                    await socket.send(codec.encode(Ack(boot=message.boot, events=[(message.seq, message.seq)])))


@dataclass
class Surroundings:
    """Addresses for the agent's settings, and what came there."""

    taken: Sink
    server: str
    web: str
    """The engine's and the collector's origin."""
    asked: dict[str, int] = field(default_factory=dict)
    """Requests by their path."""
    scrapes: list[int] = field(default_factory=list)
    """Sizes of the agent's own pages, as `scrape` got them."""

    async def scrape(self, port: int, every_s: float = SCRAPE_S) -> None:
        """Ask the agent's /metrics for ever; a scrape that fails is left out of `scrapes`."""
        while True:
            await asyncio.sleep(every_s)
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /metrics HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")
                self.scrapes.append(len(await reader.read(-1)))
                writer.close()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request: an engine's metrics for GET, OTLP's empty answer for POST."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            line, _, rest = head.lower().partition(b"\r\n")
            _, _, length = rest.partition(b"content-length:")
            await reader.readexactly(int(length.split(b"\r\n", 1)[0] or 0))
            path = line.split()[1].decode()
            self.asked[path] = self.asked.get(path, 0) + 1
            body, kind = (b"{}", b"application/json") if line.startswith(b"post") else (_ENGINE, b"text/plain; version=0.0.4")
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b"
                % (kind, len(body), body)
            )
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def surroundings() -> AsyncIterator[Surroundings]:
    """Both servers, on ports of their own."""
    from websockets.asyncio.server import serve

    found = Surroundings(Sink(), "", "")
    async with (
        serve(found.taken.serve, "127.0.0.1", 0, compression=None) as server,
        await asyncio.start_server(found.answer, "127.0.0.1", 0) as web,
    ):
        found.server = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws/agent/"
        found.web = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}"
        yield found


def settings(around: Surroundings, folder: Path, **more: str) -> Path:
    """An agent's file of settings: a server, a spool on disk, a lock; `more` are further ones, values as TOML has them."""
    (folder / "run").mkdir(exist_ok=True)
    token = folder / "token"
    token.write_text("bench\n")
    given = {
        "server": f'"{around.server}"',
        "token_file": f'"{token}"',
        "node": '"bench"',
        "spool": f'"{folder / "spool"}"',
        "run_dir": f'"{folder / "run"}"',
        "report_socket": f'"{folder / "run" / "report.sock"}"',
    }
    file = folder / "agent.toml"
    file.write_text("".join(f"{name} = {value}\n" for name, value in (given | more).items()))
    return file
