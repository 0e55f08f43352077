"""Acks are ranges of exactly what was stored, and a slow agent's wait merged."""

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.ingest import outbox as outboxes
from fleet.ingest.outbox import Outbox, ranges
from wire.codec import decode_from_server
from wire.messages import Ack, Refused, Welcome


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


async def test_who_does_not_take_a_message_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits in `send` goes on after a while, those behind it too, and nothing is kept for the peer."""
    monkeypatch.setattr(outboxes, "SEND_S", 0.1)
    cut = asyncio.Event()
    outbox = Outbox(_never, abort=cut.set)
    outbox.ack("a", stored=[0])
    await asyncio.sleep(0)
    outbox.ack("b", stored=[1])
    said = await asyncio.wait_for(asyncio.gather(*(outbox.send(Welcome(schema="s")) for _ in range(3))), 5)

    assert said == [False] * 3
    assert cut.is_set()
    assert (outbox.is_closed, outbox.was_cut_off, outbox._unsent) == (True, True, {})


async def test_nobody_waits_for_the_end_of_another_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is stuck is closed at once for all who would send, and cut off soon after."""
    monkeypatch.setattr(outboxes, "CLOSE_S", 0.1)
    cut = asyncio.Event()
    outbox = Outbox(_never, abort=cut.set)
    outbox.ack("a", stored=[0])
    await asyncio.sleep(0)
    outbox.end(4403, "revoked")
    await asyncio.sleep(0)

    assert outbox.is_closed
    assert not cut.is_set()
    await asyncio.wait_for(cut.wait(), 5)


async def test_who_reads_is_told_why_it_ends() -> None:
    """Once, and after the message that was on its way."""
    sent: list[str] = []

    async def send(message: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        sent.append(message["type"])

    cut = asyncio.Event()
    outbox = Outbox(send, abort=cut.set)
    saying = asyncio.create_task(outbox.send(Welcome(schema="s")))
    await asyncio.sleep(0)
    await outbox.close(4403, "revoked")
    await outbox.close(1012, "deleted")

    assert await saying
    assert sent == ["websocket.send", "websocket.close"]
    assert not cut.is_set()


async def _never(message: dict[str, Any]) -> None:
    await asyncio.Event().wait()
