"""The writer, on a store of its own: one poisonous batch costs no other."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import polars as pl
import pytest

from fleet.ingest.accept import Session, check_hello
from fleet.ingest.columns import Accepted, Chunk
from fleet.ingest.outbox import Outbox
from fleet.ingest.threads import Threads
from fleet.ingest.window import Ring
from fleet.ingest.writer import Writer
from fleet.store.memory import MemorySeries
from tests.speaking import batch, hello
from wire.codec import decode_from_server
from wire.messages import Ack
from wire.metrics import Scope

T = 1_750_000_000.0


class Poisoned(MemorySeries):
    """The store on dicts, with a defect: it cannot take one value, or for a while anything."""

    takes_nothing = False

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        """As MemorySeries, unless the value is there."""
        if self.takes_nothing or ("power_w" in frame.columns and (frame["power_w"] == 666.0).any()):
            raise ValueError("a defect")
        super().write(scope, frame)


class Bench:
    """A writer with one session whose acks are kept."""

    def __init__(self) -> None:
        self.acks: list[Ack] = []
        self.series = Poisoned()
        self.threads = Threads()
        ring = Ring()
        ring.enrol(1, [11])
        self.said = hello("n", gpus=1)
        self.session = Session(
            node=1,
            node_name="n",
            boot="boot-1",
            layout=check_hello(self.said, "n"),
            gpus=(11,),
            gpu_by_uuid={},
            outbox=Outbox(self._take),
        )
        self.writer = Writer(self.series, ring, self.threads, self._stored, flush_s=0.1, max_batches=100, max_bytes=1 << 20)

    async def _take(self, message: dict[str, Any]) -> None:
        decoded = decode_from_server(message["bytes"])
        assert isinstance(decoded, Ack)
        self.acks.append(decoded)

    def _stored(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self.session.outbox.ack("boot-1", stored=[one.batch.seq for one in chunk.taken])

    def put(self, seq: int, power: float) -> None:
        """One batch for the writer."""
        self.writer.put(Accepted(self.session, batch(self.said, seq, T + seq, {"power_w": power}), T + seq, 100))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A running writer."""
    made = Bench()
    made.writer.start()
    yield made
    await made.writer.stop()
    made.threads.close()


@pytest.mark.django_db(transaction=True)
async def test_one_batch_that_cannot_be_stored_costs_no_other(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """Its agent is told that it is refused, the log says why; the batches around it are stored and acked, and so are later ones."""
    for seq, power in enumerate((1.0, 666.0, 3.0)):
        bench.put(seq, power)
    await asyncio.sleep(2.5)
    bench.put(3, 4.0)
    await bench.writer.stop()
    await asyncio.sleep(0.05)

    assert {seq for ack in bench.acks for low, high in ack.stored for seq in range(low, high + 1)} == {0, 2, 3}
    assert [(refused.seq, refused.code) for ack in bench.acks for refused in ack.refused] == [(1, "malformed")]
    assert bench.series.window("gpu", int(T), int(T) + 9)["power_w"].to_list() == [1.0, 3.0, 4.0]
    assert (bench.writer.batches, bench.writer.bytes, bench.session.outbox.unstored) == (0, 0, 0)
    (dropped,) = [record for record in caplog.records if "(seq 1) is dropped" in record.message]
    assert dropped.exc_info is not None
    assert "a defect" in str(dropped.exc_info[1])


@pytest.mark.django_db(transaction=True)
async def test_a_defect_that_refuses_everything_blames_no_batch(bench: Bench) -> None:
    """When nothing at all can be stored, nothing is refused or acked; all of it is stored once that has passed."""
    bench.series.takes_nothing = True
    for seq in range(3):
        bench.put(seq, float(seq))
    await asyncio.sleep(2.5)
    assert bench.acks == []
    assert bench.writer.failing is not None
    bench.series.takes_nothing = False
    await bench.writer.stop()
    await asyncio.sleep(0.05)

    assert [ack.stored for ack in bench.acks] == [[(0, 2)]]
    assert bench.series.window("gpu", int(T), int(T) + 9)["power_w"].to_list() == [0.0, 1.0, 2.0]
    assert bench.writer.failing is None
