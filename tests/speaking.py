"""An agent by hand: says what a test wants to a real server, and keeps what it is told."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from wire import codec, metrics
from wire.messages import Ack, Batch, Cell, Error, Event, FromServer, GpuFacts, Hello, HostFacts, Welcome, schema_id

GPU = tuple(metric.name for metric in metrics.sent("gpu"))
HOST = tuple(metric.name for metric in metrics.sent("host"))
PROCESS = tuple(metric.name for metric in metrics.sent("process"))


def hello(node: str, boot: str = "boot-1", gpus: int = 2, **changes: Any) -> Hello:
    """A hello that the server takes, but for the `changes`."""
    base = Hello(
        node=node,
        boot=boot,
        agent_version="1.0",
        host=HostFacts(cores=32, mem_total_bytes=1 << 38, driver_version="580.1"),
        gpus=tuple(
            GpuFacts(index=n, uuid=f"GPU-{node}-{n}", name="NVIDIA H200", mem_total_bytes=150_754_820_096) for n in range(gpus)
        ),
        gpu_metrics=GPU,
        host_metrics=HOST,
        process_metrics=PROCESS,
        schema=schema_id(GPU, HOST, PROCESS),
    )
    return msgspec.structs.replace(base, **changes)


def batch(
    of: Hello, seq: int, t: float, gpu: dict[str, Cell] | None = None, host: dict[str, Cell] | None = None, **changes: Any
) -> Batch:
    """A batch that fits the hello: the metrics named have these values on every GPU, all others are absent."""
    values, host_values = gpu or {}, host or {}
    base = Batch(
        node=of.node,
        boot=of.boot,
        seq=seq,
        schema=of.schema,
        t=t,
        gpu=[[values.get(name)] * len(of.gpus) for name in of.gpu_metrics],
        host=[host_values.get(name) for name in of.host_metrics],
    )
    return msgspec.structs.replace(base, **changes)


@dataclass
class Agent:
    """One connection and everything the server said on it."""

    socket: ClientConnection
    heard: list[FromServer] = field(default_factory=list)
    closed: int | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        """Keep every message until the connection ends."""
        try:
            async for frame in self.socket:
                self.heard.append(codec.decode_from_server(frame))
                self._news.set()
        except ConnectionClosed:
            pass
        self.closed = self.socket.close_code
        self._news.set()

    async def say(self, *messages: Hello | Batch | Event, text: bool = False) -> None:
        """Send; hellos and `text` as JSON."""
        for message in messages:
            as_text = text or isinstance(message, Hello)
            await self.socket.send(codec.encode_text(message) if as_text else codec.encode(message))

    async def raw(self, frame: bytes | str) -> None:
        """Send a frame as it is."""
        await self.socket.send(frame)

    async def until(self, ready: Callable[[], Any], seconds: float = 15.0) -> Any:
        """Wait until `ready()` is true; its answer, false ones too when time is up."""
        deadline = time.monotonic() + seconds
        while not (answer := ready()) and (left := deadline - time.monotonic()) > 0:
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), min(left, 0.5))
        return answer

    async def greet(self, message: Hello) -> Hello:
        """Say hello and wait for the welcome."""
        before = len(self.of(Welcome))
        await self.say(message)
        assert await self.until(lambda: len(self.of(Welcome)) > before), self.heard
        return message

    async def error(self, code: str) -> Error:
        """Wait for an error of this code."""
        found = await self.until(lambda: [error for error in self.of(Error) if error.code == code])
        assert found, self.heard
        error: Error = found[0]
        return error

    async def acked(self, *seqs: int, boot: str | None = None) -> bool:
        """True once all these batches are acked as stored."""
        return bool(await self.until(lambda: set(seqs) <= self.stored(boot)))

    def of(self, kind: type) -> list[Any]:
        """What was heard of one kind."""
        return [message for message in self.heard if isinstance(message, kind)]

    def stored(self, boot: str | None = None) -> set[int]:
        """The seqs acked as stored."""
        acks = [ack for ack in self.of(Ack) if boot in (None, ack.boot)]
        return {seq for ack in acks for low, high in ack.stored for seq in range(low, high + 1)}

    def refused(self) -> dict[int, str]:
        """The seqs refused for good, with their codes."""
        return {refused.seq: refused.code for ack in self.of(Ack) for refused in ack.refused}

    def events(self) -> set[int]:
        """The event seqs acked."""
        return {seq for ack in self.of(Ack) for low, high in ack.events for seq in range(low, high + 1)}

    def events_refused(self) -> dict[int, str]:
        """The event seqs refused."""
        return {refused.seq: refused.code for ack in self.of(Ack) for refused in ack.events_refused}


@asynccontextmanager
async def speak(url: str, token: str) -> AsyncIterator[Agent]:
    """A connection with this token."""
    async with connect(
        url, additional_headers={"Authorization": f"Bearer {token}"}, compression=None, max_size=None, close_timeout=1, proxy=None
    ) as socket:
        agent = Agent(socket)
        listening = asyncio.create_task(agent.listen())
        try:
            yield agent
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def each(cases: Mapping[str, Any], check: Callable[[str, Any], Awaitable[None]]) -> None:
    """Run `check(name, case)` for every case at once; an assertion names all that failed, with their reasons."""
    names = list(cases)
    results = await asyncio.gather(*(check(name, cases[name]) for name in names), return_exceptions=True)
    failed = {name: result for name, result in zip(names, results, strict=True) if isinstance(result, BaseException)}
    assert not failed, "\n".join(f"{name}: {type(error).__name__}: {error}" for name, error in failed.items())
