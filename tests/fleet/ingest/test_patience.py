"""A connection that says what brings nothing is read slowly, whatever it says in between."""

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from fleet.ingest.patience import AT_ONCE, OF_A_FULL_QUEUE, PER_S, Patience
from tests.serving import Server
from tests.speaking import Agent, batch, hello, speak
from wire import codec
from wire.messages import Error, Hello, Welcome

JUNK = b"\x00" * 10
FLOODS: dict[str, Callable[[Hello], Iterator[bytes]]] = {
    "junk": lambda said: (JUNK for _ in count()),
    "hellos": lambda said: (codec.encode(said) for _ in count()),
    "hellos-of-64-gpus": lambda said: (codec.encode(hello(said.node, gpus=64)) for _ in count()),
    "junk-and-hellos": lambda said: (JUNK if n % 21 else codec.encode(said) for n in count()),
    "junk-and-good-batches": lambda said: (
        JUNK if n % 21 else codec.encode(batch(said, n, time.time() - 1, {"power_w": 1.0})) for n in count()
    ),
}
KEPT = 5


async def flood(agent: Agent, frames: Iterator[bytes]) -> None:
    """Send them as fast as the server reads them."""
    for frame in frames:
        await agent.raw(frame)


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_flood_is_answered_slowly(server: Server, node: str, kind: str) -> None:
    """While another agent gets its acks, the flood gets no more answers than a connection may have in that time."""
    other = f"{node}.other"
    async with speak(server.agents, server.token(node)) as hostile, speak(server.agents, server.token(other)) as good:
        began = time.monotonic()
        said = await hostile.greet(hello(node))
        flooding = asyncio.create_task(flood(hostile, FLOODS[kind](said)))
        told = await good.greet(hello(other))
        for seq in range(KEPT):
            await good.say(batch(told, seq, time.time(), {"power_w": 1.0}))
            assert await good.acked(seq)
        answers = len(hostile.of(Error)) + len(hostile.of(Welcome))
        took_s = time.monotonic() - began
        flooding.cancel()
        await asyncio.gather(flooding, return_exceptions=True)
        hostile.socket.transport.abort()  # a close would wait its turn behind the flood

    assert AT_ONCE < answers <= AT_ONCE + PER_S * took_s + 2


def test_only_time_brings_patience_back() -> None:
    """A burst is free; then each frame waits its turn; after a while the burst is free again."""
    kept, now = Patience(), 100.0
    burst = [kept.use(now) for _ in range(int(AT_ONCE))]
    over = [kept.use(now) for _ in range(3)]
    after = kept.use(now + 3 / PER_S)

    assert set(burst) == {0.0}
    assert over == pytest.approx([1 / PER_S, 2 / PER_S, 3 / PER_S])
    assert after == pytest.approx(1 / PER_S)
    assert kept.use(now + 60) == 0.0


def test_a_clock_that_is_wrong_ten_times_a_second_never_waits() -> None:
    """An agent at its fastest, every batch of which is refused: its events never wait behind them."""
    kept = Patience()

    assert {kept.use(100.0 + n / 10) for n in range(1_000)} == {0.0}


def test_a_full_queue_is_the_servers_fault() -> None:
    """What it refuses counts a fifth: an agent that comes back with a backlog is not punished for it."""
    kept = Patience()

    assert {kept.use(100.0, OF_A_FULL_QUEUE) for _ in range(int(AT_ONCE / OF_A_FULL_QUEUE) - 1)} == {0.0}
    assert {kept.use(100.0 + n / 50, OF_A_FULL_QUEUE) for n in range(1_000)} == {0.0}
