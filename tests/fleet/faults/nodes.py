"""Nodes by hand that behave as agents do: what is not acked is kept, and sent again after a reconnect, newest first."""

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import Final

from msgspec import structs
from websockets.exceptions import WebSocketException

from tests.serving import Server
from tests.speaking import Agent, batch, hello, speak
from wire.messages import Ack, Batch, Cell, Error, Event, Hello, Hold, Processes, Welcome

PID: Final = 4_711
IN_FLIGHT: Final = 500
"""Samples of one node that wait for their acks at once."""
WHILE_BUSY: Final = 25
"""So many of them while the server is busy, every other second."""
_numbers = itertools.count(1)


def power(number: int, seq: int, gpu: int) -> float:
    """Watts that tell the node, the sample and the GPU."""
    return (10_000 + (seq * 37 + number * 10_007) % 50_000) / 100 + gpu / 1000


def temperature(number: int, seq: int) -> float | None:
    """Degrees that tell the node and the sample; every other node has none, so that a row of two nodes' values would show."""
    return 30 + (seq * 7 + number) % 50 if number % 2 else None


def busy(number: int, seq: int) -> float:
    """Cores that tell the node and the sample."""
    return ((seq * 13 + number * 101) % 6_400) / 100


class Node:
    """One run of one node's agent, its samples a second apart from `start` on."""

    def __init__(self, server: Server, name: str, start: int, *, gpus: int = 2, boot: str = "boot-1", token: str = "") -> None:
        self.name, self.boot, self.start, self.gpus = name, boot, start, gpus
        self.number = next(_numbers)
        self.token = token or server.token(name)
        self.times: dict[int, float] = {}
        """Of each sample that there is."""
        self.events: set[int] = set()
        self.acked: set[int] = set()
        self.events_acked: set[int] = set()
        self.refused: dict[int, str] = {}
        self.connections = 0
        self.agents_url = server.agents
        self._ended = False
        self._sent: set[int] = set()
        self._events_sent: set[int] = set()
        self._busy_until = 0.0
        self._room = IN_FLIGHT

    def happen(self, samples: int = 1, events: int = 0) -> None:
        """So many more samples and events are there to be delivered."""
        for _ in range(samples):
            seq = len(self.times)
            self.times[seq] = self.start + seq + 0.5
        self.events |= set(range(len(self.events), len(self.events) + events))

    @property
    def is_delivered(self) -> bool:
        """True once all that there is was acked."""
        return self.acked >= set(self.times) and self.events_acked >= self.events

    def ids(self, server: Server) -> list[int]:
        """The ids of its GPUs, which may share the node with those of a real agent."""
        return [gpu["id"] for gpu in server.gpus(self.name) if gpu["uuid"].startswith(f"GPU-{self.name}-")]

    def hello(self) -> Hello:
        """What it says first."""
        return hello(self.name, self.boot, self.gpus, t=time.time())

    def batch(self, said: Hello, seq: int) -> Batch:
        """Sample `seq`: every GPU has a power of its own, and one process that holds as many bytes as its number and the sample tell."""
        degrees = temperature(self.number, seq)
        host: dict[str, Cell] = {"cpu_busy_cores": busy(self.number, seq)}
        made = batch(said, seq, self.times[seq], {"temperature_c": degrees}, host)
        at = said.gpu_metrics.index("power_w")
        gpu = [*made.gpu]
        gpu[at] = [power(self.number, seq, index) for index in range(self.gpus)]
        processes = Processes(
            pid=[PID],
            name=["train"],
            user=["ann"],
            values=[[None]] * len(said.process_metrics),
            holds=[Hold(index, PID, self.number * 1_000_000 + seq) for index in range(self.gpus)],
        )
        return structs.replace(made, gpu=gpu, processes=processes)

    def event(self, seq: int) -> Event:
        """Event `seq`, of its first GPU."""
        return Event(
            node=self.name, boot=self.boot, seq=seq, t=self.start + seq + 0.25, kind="xid", gpu_uuid=f"GPU-{self.name}-0", code=31,
            text=f"event {seq} of {self.boot}",
        )  # fmt: skip

    async def run(self) -> None:
        """Deliver, over as many connections as it takes, until `end`."""
        while not self._ended:
            with suppress(OSError, WebSocketException, TimeoutError):
                async with speak(self.agents_url, self.token) as agent:
                    self.connections += 1
                    await self._talk(agent)
            await asyncio.sleep(0.1)

    def end(self) -> None:
        """Deliver no more."""
        self._ended = True

    async def _talk(self, agent: Agent) -> None:
        said = self.hello()
        self._sent, self._events_sent = set(), set()
        await agent.say(said)
        await agent.until(lambda: agent.of(Welcome) or agent.of(Error) or agent.closed is not None, 10)
        if not agent.of(Welcome):
            return
        while not self._ended and agent.closed is None:
            self._hear(agent)
            for seq in sorted(self.events - self.events_acked - self._events_sent):
                self._events_sent.add(seq)
                await agent.say(self.event(seq))
            if time.monotonic() >= self._busy_until:
                waiting = sorted(self.times.keys() - self.acked - self._sent - self.refused.keys(), reverse=True)
                for seq in waiting[: max(0, self._room - len(self._sent - self.acked))]:
                    self._sent.add(seq)
                    await agent.say(self.batch(said, seq))
            await asyncio.sleep(0.05)
        self._hear(agent)

    def _hear(self, agent: Agent) -> None:
        heard, agent.heard[:] = [*agent.heard], []
        for message in heard:
            if isinstance(message, Ack) and message.boot == self.boot:
                if message.stored:
                    self._room = IN_FLIGHT
                self.acked |= {seq for low, high in message.stored for seq in range(low, high + 1)}
                self.events_acked |= {seq for low, high in message.events for seq in range(low, high + 1)}
                self.refused |= {one.seq: one.code for one in message.refused}
                self._events_sent -= {one.seq for one in message.events_refused if one.code == "busy"}
            elif isinstance(message, Error) and message.code == "busy" and message.seq is not None:
                self._busy_until, self._room = time.monotonic() + 2, WHILE_BUSY
                self._sent.discard(message.seq)


@asynccontextmanager
async def delivering(
    nodes: Collection[Node], living: Collection[Node] | None = None, samples_per_s: float = 10, events_every: int = 10
) -> AsyncIterator[Callable[[], None]]:
    """All nodes deliver; those `living` (None: all) have so many new samples a second, and an event with every so many, until the call that comes back."""
    stopped = asyncio.Event()
    running = [asyncio.create_task(node.run()) for node in nodes]
    alive = asyncio.create_task(_live(nodes if living is None else living, stopped, 1 / samples_per_s, events_every))
    try:
        yield stopped.set
    finally:
        stopped.set()
        for node in nodes:
            node.end()
        await asyncio.gather(alive, *running)


async def _live(nodes: Collection[Node], stopped: asyncio.Event, pause_s: float, events_every: int) -> None:
    while not stopped.is_set():
        for node in nodes:
            node.happen(1, events=int(len(node.times) % events_every == 0))
        await asyncio.sleep(pause_s)


async def delivered(nodes: Collection[Node], seconds: float = 60) -> None:
    """Wait until every node's samples and events are acked; AssertionError names those that are not."""
    deadline = time.monotonic() + seconds
    while not all(node.is_delivered for node in nodes) and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    late = {node.name: (len(set(node.times) - node.acked), len(node.events - node.events_acked)) for node in nodes}
    assert all(node.is_delivered for node in nodes), f"samples and events without an ack, by node: {late}"


async def acked_more(nodes: Collection[Node], more: int, seconds: float = 60) -> None:
    """Wait until so many more samples of all nodes together are acked."""
    wanted = sum(len(node.acked) for node in nodes) + more
    deadline = time.monotonic() + seconds
    while sum(len(node.acked) for node in nodes) < wanted:
        assert time.monotonic() < deadline, (
            f"acks stand still: {[(node.name, len(node.acked), node.connections, node.refused) for node in nodes]}"
        )
        await asyncio.sleep(0.02)


async def a_while(pick: random.Random, low: float, high: float) -> None:
    """A moment that nobody could foresee."""
    await asyncio.sleep(pick.uniform(low, high))
