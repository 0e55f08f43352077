"""Agents that never read what they are told: each costs itself alone, and not for long."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.deaf import Deaf, deaf
from tests.serving import Server, serve
from tests.speaking import batch, hello, speak
from wire import codec

DEAF = 3


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own."""
    with serve(tmp_path / "data") as running:
        yield running


def stuck(server: Server, stack: ExitStack) -> list[Deaf]:
    """Connections of the node `deaf` to which the server cannot send any more, and has to."""
    token, said = server.token("deaf"), codec.encode(hello("deaf"))
    peers = [stack.enter_context(deaf(server.agents, token)) for _ in range(DEAF)]
    for peer in peers:
        peer.say(said)
        peer.fill()
        peer.say(said)
    return peers


def connected(server: Server) -> int:
    """How many agents the server's books count."""
    rows = server.rows("SELECT numbers FROM ingest_intake")
    return sum(int(json.loads(row["numbers"])["agents"]) for row in rows)


async def becomes_true(condition: object, seconds: float = 40.0) -> bool:
    """Whether `condition()` comes true in time; other tasks run on meanwhile."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if await asyncio.to_thread(condition):
            return True
        await asyncio.sleep(0.2)
    return False


@asynccontextmanager
async def beating(server: Server) -> AsyncIterator[None]:
    """Another node, whose agent reads and sends once a second."""
    async with speak(server.agents, server.token("lively")) as agent:
        said = await agent.greet(hello("lively"))

        async def beat() -> None:
            for seq in range(10_000):
                await agent.say(batch(said, seq, time.time(), {"power_w": 1.0}))
                await asyncio.sleep(1)

        beats = asyncio.create_task(beat())
        assert await agent.acked(0)
        try:
            yield
        finally:
            beats.cancel()


def revoke(server: Server) -> None:
    """As the page of tokens does."""
    server.execute("UPDATE accounts_agenttoken SET revoked_at = '2025-01-01 00:00:00' WHERE node_name = 'deaf'")


def delete(server: Server) -> None:
    """As the page of the node does."""
    for table in ("absence", "event", "gpu"):
        server.execute(f"DELETE FROM inventory_{table} WHERE node_id IN (SELECT id FROM inventory_node WHERE name = 'deaf')")
    server.execute("DELETE FROM inventory_node WHERE name = 'deaf'")


@pytest.mark.parametrize("end", [revoke, delete])
async def test_ending_an_agent_that_does_not_read_holds_up_nobody(alone: Server, end: object) -> None:
    """Its token is revoked, or its node deleted: the books of all others go on, and its connections are gone."""
    assert callable(end)
    with ExitStack() as stack:
        async with beating(alone):
            peers = await asyncio.to_thread(stuck, alone, stack)
            assert await becomes_true(lambda: connected(alone) == 1 + DEAF)
            await asyncio.to_thread(end, alone)
            assert await becomes_true(lambda: all(peer.is_gone() for peer in peers))
            assert await becomes_true(lambda: connected(alone) == 1)
            seen = alone.node("lively")["last_seen_at"]
            assert await becomes_true(lambda: alone.node("lively")["last_seen_at"] > seen)


async def test_an_agent_that_does_not_read_is_cut_off(alone: Server) -> None:
    """Nobody has to find it: what it was to be told is kept for seconds, and its places are free again."""
    with ExitStack() as stack:
        async with beating(alone):
            peers = await asyncio.to_thread(stuck, alone, stack)
            assert await becomes_true(lambda: connected(alone) == 1 + DEAF)
            assert await becomes_true(lambda: all(peer.is_gone(1) for peer in peers))
            assert await becomes_true(lambda: connected(alone) == 1)

    assert alone.log.read_text().count("deaf does not take what it is sent; its connection was cut off") == DEAF
