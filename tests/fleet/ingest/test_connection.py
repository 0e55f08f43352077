"""What one connection and the books do over time, in this process: real parts, their patience made short."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from fleet.ingest import connection, events, service, skew
from fleet.ingest.auth import Credential
from fleet.ingest.connection import Connection
from fleet.ingest.outbox import Outbox
from fleet.ingest.service import Ingest
from fleet.inventory.models import Node
from tests.speaking import batch, hello
from wire import codec
from wire.messages import Error, Event, FromServer, Hello, Welcome

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("memory_store")]


@pytest.fixture
async def ingest() -> AsyncIterator[Ingest]:
    """All of ingest, running."""
    made = Ingest()
    made.start()
    yield made
    await made.stop()


class Line:
    """One connection without a socket."""

    def __init__(self, ingest: Ingest, node: str = "n") -> None:
        self.heard: list[FromServer] = []
        self._frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.connection = Connection(ingest, Credential(1, node), Outbox(self._hear))
        ingest.connections.add(self.connection)
        self._task = asyncio.create_task(self.connection.run(self._frames.get))

    async def _hear(self, message: dict[str, Any]) -> None:
        if "bytes" in message:
            self.heard.append(codec.decode_from_server(message["bytes"]))

    async def say(self, *messages: Any) -> None:
        """Send, and wait until all of it was read."""
        for message in messages:
            self._frames.put_nowait({"type": "websocket.receive", "bytes": codec.encode(message)})
        before, said = self.count(Welcome), messages[0] if isinstance(messages[0], Hello) else hello("n")
        self._frames.put_nowait({"type": "websocket.receive", "bytes": codec.encode(said)})
        while self.count(Welcome) <= before:
            await asyncio.sleep(0.01)

    def count(self, kind: type) -> int:
        """How many messages of this kind were heard."""
        return sum(isinstance(message, kind) for message in self.heard)

    async def end(self, ingest: Ingest) -> None:
        """Hang up."""
        self._frames.put_nowait({"type": "websocket.disconnect"})
        await self._task
        ingest.connections.discard(self.connection)
        self.connection.end()


async def test_it_asks_for_a_hello_when_batches_come_late_for_long(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents say it again with their time. The batch is taken all the same, and it is nobody's refusal."""
    monkeypatch.setattr(skew, "DOUBT_S", 0.2)
    line = Line(ingest)
    said = hello("n", t=time.time())
    await line.say(said, batch(said, 1, time.time()))
    await asyncio.sleep(0.3)
    await line.say(batch(said, 0, time.time() - 300))

    assert [message.code for message in line.heard if isinstance(message, Error)] == ["need_hello"]
    assert [message.seq for message in line.heard if isinstance(message, Error)] == [None]
    assert line.connection.outbox.unstored + len(ingest.ledger.seen) > 0
    assert ingest.ledger.refused == {}
    await line.end(ingest)


async def test_what_is_kept_for_each_node_goes_with_it(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that was deleted, or is gone for long, and hellos and shares of events that no longer count, leave nothing behind."""
    monkeypatch.setattr(service, "BOOKS_S", 0.1)
    monkeypatch.setattr(connection, "MAX_HELLOS_A_MINUTE", 5)
    monkeypatch.setattr(events, "EVENTS_AT_ONCE", 20.0)
    line = Line(ingest)
    said = hello("n", t=time.time() - 45)
    await line.say(said, batch(said, 0, time.time() - 45))
    await line.say(Event(node="n", boot="boot-1", seq=0, t=time.time(), kind="agent"))
    node = line.connection.node
    assert (ingest.voices["n"].node, node in ingest.ring.nodes, node in ingest.events._shares) == (node, True, True)
    assert ingest.hello_times[1]
    await line.end(ingest)
    await sync_to_async(Node.objects.all().delete)()
    ingest.hello_times[1][-1] -= 61
    await asyncio.sleep(4)

    assert ingest.voices == {}
    assert ingest.ring.nodes == {}
    assert ingest.ring.host.slots == {}
    assert ingest.ring.gpu.slots == {}
    assert ingest.ring.node_of == {}
    assert ingest.hello_times == {}
    assert ingest.events._shares == {}
    assert ingest.ledger._skew_known == {}


async def test_a_node_that_is_only_silent_for_a_while_keeps_its_voice(ingest: Ingest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog that comes after a short break is known as one; after a long one the node begins anew."""
    line = Line(ingest)
    said = hello("n", t=time.time())
    await line.say(said, batch(said, 0, time.time()))
    await line.end(ingest)
    ingest._forget_idle()
    assert "n" in ingest.voices
    monkeypatch.setattr(service, "IDLE_S", -1.0)
    ingest._forget_idle()

    assert "n" not in ingest.voices
