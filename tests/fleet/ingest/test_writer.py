"""The writer, on a store of its own: one poisonous batch costs no other."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import replace
from queue import Queue
from typing import Any

import polars as pl
import pytest
from asgiref.sync import sync_to_async

from fleet.ingest import absence
from fleet.ingest.absence import Source
from fleet.ingest.accept import Session, check_hello
from fleet.ingest.columns import Accepted, Chunk
from fleet.ingest.outbox import Outbox
from fleet.ingest.threads import Threads
from fleet.ingest.window import Ring
from fleet.ingest.writer import NODES_AT_LEAST, Writer
from fleet.inventory.models import Absence, Gpu, Node
from fleet.store.deferred import Pending
from fleet.store.memory import MemorySeries
from fleet.store.series import StoreError, TooOldError
from tests.speaking import batch, hello
from wire.codec import WireError, decode_from_server
from wire.messages import AbsentChange, Ack
from wire.metrics import Scope

T = 1_750_000_000.0


class Poisoned(MemorySeries):
    """The store on dicts, with a defect: it cannot take one value, or for a while anything."""

    takes_nothing = False
    fails = 0
    """So many writes fail, and then none."""
    before = -math.inf
    refuses: str | None = None

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        """As MemorySeries, unless the value is there."""
        if self.refuses is not None:
            raise StoreError(self.refuses)
        if "power_w" in frame.columns and (frame["power_w"] == 555.0).any():
            raise TooOldError("1 row is older than what is kept.", self.before)
        self.fails -= 1
        if self.takes_nothing or self.fails >= 0 or ("power_w" in frame.columns and (frame["power_w"] == 666.0).any()):
            raise ValueError("a defect")
        super().write(scope, frame)


class Bench:
    """A writer with one session whose acks are kept."""

    def __init__(self, series: Poisoned | None = None) -> None:
        self.acks: list[Ack] = []
        self.series = series or Poisoned()
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
        self.refused: list[tuple[str, str, str]] = []
        self.writer = Writer(
            self.series, ring, self.threads, self._stored, self._refuse, flush_s=0.1, max_batches=100, max_bytes=1 << 20
        )

    async def _take(self, message: dict[str, Any]) -> None:
        decoded = decode_from_server(message["bytes"])
        assert isinstance(decoded, Ack)
        self.acks.append(decoded)

    def _stored(self, chunks: list[Chunk], done: list[Source]) -> None:
        self.session.outbox.ack("boot-1", stored=[seq for _, seq in done])

    def _refuse(self, node: str, code: str, detail: str) -> None:
        self.refused.append((node, code, detail))

    def put(self, seq: int, power: float, *absent: AbsentChange, size: int = 100, t: float | None = None) -> None:
        """One batch for the writer, of second `seq` unless `t` says another."""
        t = T + seq if t is None else t
        made = batch(self.said, seq, t, {"power_w": power}, absent=list(absent))
        self.writer.put(Accepted(self.session, made, t, size))

    def acked(self) -> set[int]:
        """The seqs acked as stored."""
        return {seq for ack in self.acks for low, high in ack.stored for seq in range(low, high + 1)}


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
    """Its agent is told that it is refused, the refusal is counted, the log says why; the batches around it are stored and acked, and so are later ones."""
    for seq, power in enumerate((1.0, 666.0, 3.0)):
        bench.put(seq, power)
    await asyncio.sleep(2.5)
    bench.put(3, 4.0)
    bench.put(4, 555.0)
    await asyncio.sleep(2.5)
    await bench.writer.stop()
    await asyncio.sleep(0.05)

    assert bench.acked() == {0, 2, 3}
    assert [(refused.seq, refused.code) for ack in bench.acks for refused in ack.refused] == [(1, "malformed"), (4, "bad_time")]
    assert bench.refused == [
        ("n", "malformed", "a batch that the store cannot hold; the server's log says why"),
        ("n", "bad_time", "1 row is older than what is kept."),
    ]
    assert bench.series.window("gpu", int(T), int(T) + 9)["power_w"].to_list() == [1.0, 3.0, 4.0]
    assert (bench.writer.batches, bench.writer.bytes, bench.session.outbox.unstored) == (0, 0, 0)
    (dropped,) = [record for record in caplog.records if "(seq 1) is dropped" in record.message]
    assert dropped.exc_info is not None
    assert "a defect" in str(dropped.exc_info[1])


@pytest.mark.django_db(transaction=True)
async def test_a_defect_that_passes_while_the_bad_batch_is_sought_blames_none(bench: Bench) -> None:
    """The whole (twice), its half and the first batch alone were refused; the others are taken, and then so is the first."""
    bench.series.fails = 4
    for seq in range(4):
        bench.put(seq, float(seq))
    await asyncio.sleep(1.0)
    await bench.writer.stop()
    await asyncio.sleep(0.05)

    assert bench.acked() == {0, 1, 2, 3}
    assert not [ack for ack in bench.acks if ack.refused]


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

    assert bench.acked() == {0, 1, 2}
    assert not [ack for ack in bench.acks if ack.refused]
    assert bench.series.window("gpu", int(T), int(T) + 9).sort("ts")["power_w"].to_list() == [0.0, 1.0, 2.0]
    assert bench.writer.failing is None


@pytest.mark.django_db(transaction=True)
async def test_a_store_that_refuses_is_logged_once_and_once_when_it_takes_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """However many batches come and however often it is tried, counts in the sentence apart; another trouble is news."""
    for turn, refuses in enumerate(("disk full, 3 rows wait", "disk full, 4 rows wait", "read-only", None)):
        bench.series.refuses = refuses
        bench.put(turn, 1.0)
        await asyncio.sleep(1.2)
    await bench.writer.stop()
    await asyncio.sleep(0.05)

    said = [record.getMessage() for record in caplog.records if record.name == "fleet.ingest.writer"]
    assert said == [
        "Telemetry is not stored, agents keep it: disk full, 3 rows wait",
        "Telemetry is not stored, agents keep it: read-only",
        "Telemetry is stored again",
    ]
    assert bench.acked() == {0, 1, 2, 3}


@pytest.mark.django_db(transaction=True)
async def test_a_batch_is_acked_once_its_absences_are_written(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is over the share waits in memory: an ack before it is written would lose it in a crash. The readings do not wait."""
    monkeypatch.setattr(absence, "CHANGES_AT_ONCE", 1)
    monkeypatch.setattr(absence, "CHANGES_PER_S", 0.0)
    await sync_to_async(inventory)()
    bench.put(0, 5.0, AbsentChange(0, "sm_active", "timeout"), AbsentChange(0, "dram_active", "timeout"))
    bench.put(1, 6.0)
    await asyncio.sleep(1.0)

    assert bench.series.window("gpu", int(T), int(T) + 9)["power_w"].to_list() == [5.0, 6.0]
    assert bench.acked() == {1}
    assert (bench.writer.batches, bench.writer.bytes, bench.session.outbox.unstored) == (0, 0, 1)
    assert await sync_to_async(Absence.objects.count)() == 1
    monkeypatch.setattr(absence, "CHANGES_PER_S", 20.0)
    await asyncio.sleep(0.5)

    assert bench.acked() == {0, 1}
    assert bench.session.outbox.unstored == 0
    assert await sync_to_async(Absence.objects.count)() == 2


@pytest.mark.django_db(transaction=True)
async def test_one_node_cannot_fill_the_queue_of_all(bench: Bench) -> None:
    """Whichever connections it uses: beyond its share of the bytes it hears `busy`, and others are taken. One batch always is."""
    share = (1 << 20) // NODES_AT_LEAST
    mine, bench.session = bench.session, replace(bench.session, outbox=Outbox(bench._take))
    bench.put(0, 1.0, size=share + 1)
    bench.session = mine
    with pytest.raises(WireError, match="busy"):
        bench.put(1, 1.0)
    other = replace(mine, node=2, node_name="other", outbox=Outbox(bench._take))
    bench.session = other
    bench.put(0, 2.0)
    bench.put(1, 2.0, size=share - 100)
    with pytest.raises(WireError, match="busy"):
        bench.put(2, 2.0)
    await asyncio.sleep(1.0)

    bench.session = mine
    bench.put(1, 1.0)
    await bench.writer.stop()
    assert bench.writer._bytes_of == {}


def inventory() -> None:
    """The rows that the session speaks of."""
    Gpu.objects.create(pk=11, node=Node.objects.create(pk=1, name="n"), uuid="GPU-n-0", index=0, model="H200")


class Late(Poisoned):
    """The store on dicts that says only when told that rows are durable, or that they were lost."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Callable[[StoreError | None], None]] = []
        self.words: list[list[float]] = []
        self.takes = threading.Event()
        self.takes.set()
        self.after_s = 0.0

    def send(self, frames: Mapping[Scope, pl.DataFrame]) -> Pending:
        """As Deferring.send: the rows are there once it `takes` them, and durable when the test says so."""
        self.words.append(frames["gpu"]["power_w"].to_list())
        assert self.takes.wait(10)
        for scope, frame in frames.items():
            self.write(scope, frame)
        outcome: Queue[StoreError | None] = Queue()
        self.sent.append(outcome.put)

        def check() -> None:
            if (error := outcome.get(timeout=10)) is not None:
                raise error

        return Pending(self.after_s, check)

    def forget(self, scope: Scope, entities: Iterable[int]) -> None:
        """As Deferring.forget: it remembers nothing."""


@pytest.mark.django_db(transaction=True)
async def test_what_is_not_durable_yet_is_not_acked_and_holds_up_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Two flushes wait at a time, acked when they and those before are durable; one that is lost is sent again, and its absence noted then."""
    bench, series = await late()
    bench.writer.start()
    try:
        bench.put(0, 1.0, AbsentChange(0, "power_w", "timeout"))
        await _until(lambda: len(series.sent) == 1)
        bench.put(1, 2.0)
        await _until(lambda: len(series.sent) == 2)
        bench.put(2, 3.0)
        await _until(lambda: len(series.sent) == 3)
        series.sent[0](None)
        await _until(lambda: bench.acked() == {0})
        series.sent[1](StoreError("it was restarted"))
        await _until(lambda: len(series.sent) == 4)
        assert bench.acked() == {0}
        assert bench.writer.failing == "it was restarted"
        series.sent[3](None)
        await _until(lambda: bench.acked() == {0, 1, 2})
        series.sent[2](None)
    finally:
        await bench.writer.stop()
        bench.threads.close()

    assert (bench.writer.batches, bench.writer.bytes) == (0, 0)
    assert "stored again" in caplog.text


@pytest.mark.django_db(transaction=True)
async def test_it_ends_without_waiting_until_what_it_wrote_last_is_durable() -> None:
    """At a stop what is left is sent, and not acked: nobody would hear it, and agents send it again."""
    bench = Bench(Late())
    assert isinstance(bench.series, Late)
    bench.series.after_s = 3600.0
    bench.writer.start()
    bench.put(0, 1.0)
    await asyncio.wait_for(bench.writer.stop(), 10)
    bench.threads.close()

    assert bench.series.words == [[1.0]]
    assert bench.acked() == set()
    assert bench.writer._confirming == []


@pytest.mark.django_db(transaction=True)
async def test_the_last_word_of_a_second_stays_the_last_when_an_earlier_one_is_sent_again() -> None:
    """Three words for one second, sent one after the other: the first is lost while the third is on its way. All are sent again, in order."""
    bench, series = await late()
    bench.writer.start()
    try:
        for number, word in enumerate((100.0, 300.0), start=1):
            bench.put(number, word, t=T)
            await _until(lambda number=number: len(series.sent) == number)  # type: ignore[misc] # the number is bound
        series.takes.clear()
        bench.put(3, 500.0, t=T)
        await _until(lambda: len(series.words) == 3)
        series.sent[1](None)
        series.sent[0](StoreError("it was restarted"))
        await _until(lambda: bench.writer.failing is not None)
        series.takes.set()
        await _until(lambda: len(series.sent) == 4)
        series.sent[2](None)
        assert bench.acked() == set()
        series.sent[3](None)
        await _until(lambda: bench.acked() == {1, 2, 3})
    finally:
        series.takes.set()
        await bench.writer.stop()
        bench.threads.close()

    assert series.words == [[100.0], [300.0], [500.0], [100.0, 300.0, 500.0]]
    assert series.window("gpu", int(T), int(T) + 1)["power_w"].to_list() == [500.0]
    assert (bench.writer.batches, bench.writer.bytes, bench.session.outbox.unstored) == (0, 0, 0)


@pytest.mark.django_db(transaction=True)
async def test_a_bad_batch_is_looked_for_once_all_that_was_sent_before_is_durable() -> None:
    """What was sent before it is lost meanwhile: it is sent again before the good ones beside the bad one."""
    bench, series = await late()
    bench.writer.start()
    try:
        bench.put(0, 100.0, t=T)
        await _until(lambda: len(series.sent) == 1)
        bench.put(1, 300.0, t=T)
        bench.put(2, 666.0)
        await _until(lambda: len(series.words) == 2)
        series.sent[0](StoreError("it was restarted"))
        await _until(lambda: len(series.words) >= 3)
        while bench.acked() != {0, 1}:
            for durable in series.sent[1:]:
                durable(None)
            await asyncio.sleep(0.05)
    finally:
        await bench.writer.stop()
        bench.threads.close()

    assert series.window("gpu", int(T), int(T) + 1)["power_w"].to_list() == [300.0]
    assert [(refused.seq, refused.code) for ack in bench.acks for refused in ack.refused] == [(2, "malformed")]


@pytest.mark.django_db(transaction=True)
async def test_any_number_of_flushes_waits_at_once() -> None:
    """However many are not durable yet, the next is sent and looked at: none waits for its turn to wait."""
    bench, series = await late()
    series.after_s = 3600.0
    bench.writer.start()
    while (flushes := len(series.sent)) < 40:  # more than there are threads
        bench.put(flushes, 1.0)
        await _until(lambda: len(series.sent) > flushes)
    series.after_s = 0.0
    bench.put(40, 2.0)
    await _until(lambda: len(series.sent) == 41)
    series.sent[40](StoreError("it was restarted"))
    await _until(lambda: bench.writer.failing == "it was restarted")
    await bench.writer.stop()
    bench.threads.close()


@pytest.mark.django_db(transaction=True)
async def test_batches_that_are_too_old_are_dropped_in_one_pass(caplog: pytest.LogCaptureFixture) -> None:
    """The store says from which second on it keeps rows: the others go to it at once and together; the old ones are refused and no defect."""
    bench, series = await late()
    series.before = T + 2
    for seq, power in enumerate((555.0, 555.0, 3.0, 4.0, 5.0)):
        bench.put(seq, power)
    bench.writer.start()
    try:
        await _until(lambda: len(series.sent) == 1)
        assert await sync_to_async(powers)(series) == [3.0, 4.0, 5.0]
        await _until(lambda: {one.seq: one.code for ack in bench.acks for one in ack.refused} == {0: "bad_time", 1: "bad_time"})
        assert bench.acked() == set()
        series.sent[0](None)
        await _until(lambda: bench.acked() == {2, 3, 4})
    finally:
        for durable in series.sent:
            durable(None)
        await bench.writer.stop()
        bench.threads.close()

    assert len(series.sent) == 1
    assert bench.refused == [("n", "bad_time", "1 row is older than what is kept.")] * 2
    assert (bench.writer.batches, bench.writer.bytes, bench.session.outbox.unstored) == (0, 0, 0)
    assert "dropped" not in caplog.text
    assert "looking for the bad one" not in caplog.text


@pytest.mark.django_db(transaction=True)
async def test_what_is_good_beside_a_bad_batch_waits_side_by_side_to_be_durable() -> None:
    """All good parts are sent before any is durable, and so are the batches that come later; all are acked in their order."""
    bench, series = await late()
    for seq, power in enumerate((1.0, 2.0, 666.0, 4.0, 5.0, 6.0, 7.0, 8.0)):
        bench.put(seq, power)
    bench.writer.start()
    try:
        await _until(lambda: len(series.sent) == 3)  # 0 and 1, 3, 4 to 7
        await _until(lambda: [one.seq for ack in bench.acks for one in ack.refused] == [2])
        bench.put(8, 9.0)
        await _until(lambda: len(series.sent) == 4)
        assert bench.acked() == set()
        for durable in reversed(series.sent):
            durable(None)
        await _until(lambda: bench.acked() == {0, 1, 3, 4, 5, 6, 7, 8})
    finally:
        for durable in series.sent:
            durable(None)
        await bench.writer.stop()
        bench.threads.close()


def powers(series: MemorySeries) -> list[float]:
    """What is there, by its second."""
    found: list[float] = series.window("gpu", int(T), int(T) + 99, metrics=["power_w"])["power_w"].to_list()
    return found


async def late() -> tuple[Bench, Late]:
    """A writer, not started, on a store that says when rows are durable, with the session's node in the database; and the store."""
    await sync_to_async(Node.objects.create)(pk=1, name="n")
    series = Late()
    return Bench(series), series


async def _until(true: Callable[[], bool]) -> None:
    """Wait for what must come."""
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.02)
