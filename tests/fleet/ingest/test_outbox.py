"""Acks are ranges of exactly what was stored, and a slow agent's wait merged."""

import asyncio
import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fleet.ingest.outbox import Outbox, ranges
from wire.codec import decode_from_server
from wire.messages import Ack, Refused


@given(st.lists(st.integers(0, 200)))
def test_ranges_cover_exactly_the_numbers(numbers: list[int]) -> None:
    """Each number is in one range, nothing else is, and neighbours are never two ranges."""
    found = ranges(numbers)

    assert [n for low, high in found for n in range(low, high + 1)] == sorted(set(numbers))
    assert all(after[0] > before[1] + 1 for before, after in itertools.pairwise(found))


async def test_acks_merge_while_one_is_on_its_way() -> None:
    """However often the writer acks meanwhile, the agent gets one more frame for each boot."""
    sent: list[Ack] = []
    free = asyncio.Event()

    async def send(message: dict[str, Any]) -> None:
        await free.wait()
        decoded = decode_from_server(message["bytes"])
        assert isinstance(decoded, Ack)
        sent.append(decoded)

    outbox = Outbox(send)
    outbox.ack("a", stored=[0])
    await asyncio.sleep(0)
    for seq in range(1, 10):
        outbox.ack("a", stored=[seq], refused=[Refused(100 + seq, "bad_time")])
    outbox.ack("b", events=[3])
    free.set()
    await asyncio.sleep(0.05)

    assert sent[0] == Ack(boot="a", stored=[(0, 0)])
    assert {ack.boot: (ack.stored, len(ack.refused), ack.events) for ack in sent[1:]} == {
        "a": ([(1, 9)], 9, []),
        "b": ([], 0, [(3, 3)]),
    }


async def test_a_connection_that_is_gone_raises_nothing() -> None:
    """Acks for a peer that left are dropped: it will send again, and be acked then."""

    async def send(message: dict[str, Any]) -> None:
        raise OSError("gone")

    outbox = Outbox(send)
    outbox.ack("a", stored=[0])
    await asyncio.sleep(0.05)
    outbox.ack("a", stored=[1])

    assert outbox.is_closed
