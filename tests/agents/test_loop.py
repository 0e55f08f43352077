"""Ticks on whole seconds, batches and events with their seqs, reasons told when they change."""

import asyncio

import pytest

from agents.device import DeviceEvent
from agents.loop import NodeLoop, run
from agents.segment import BATCH, EVENT
from agents.source import ENGINE, GPU, HOST, Absences, Inventory, Tick
from agents.spool import Spool
from wire.codec import decode_from_agent
from wire.messages import AbsentChange, Batch, EngineAbsence, Engines, Event, FromAgent, GpuFacts, GpuLabels, HostFacts


class Hand:
    """A clock that a test moves: sleeping moves it, `jump` steps the wall clock alone."""

    def __init__(self, start: float = 1_800_000_000.25) -> None:
        self.wall, self.mono = start, 0.0
        self.steps: dict[int, float] = {}
        self.sleeps = 0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.mono

    async def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.wall += seconds + self.steps.get(self.sleeps, 0.0)
        self.mono += seconds
        await asyncio.sleep(0)


class Given:
    """A source that answers what a test sets."""

    def __init__(self, gpus: int = 1) -> None:
        self.inventory = Inventory(HostFacts(), tuple(GpuFacts(index=i, uuid=f"GPU-{i}", name="g") for i in range(gpus)))
        self.gpu_reasons: list[list[str | None]] = [[None] * len(GPU) for _ in range(gpus)]
        self.holds_reasons: list[str | None] = [None] * gpus
        self.host_reasons: list[str | None] = [None] * len(HOST)
        self.happened: list[DeviceEvent] = []
        self.engines = Engines()
        self.engine_reasons: list[list[str | None]] = []
        self.gpu_labels: list[dict[str, str]] = []

    async def collect(self) -> Tick:
        gpus = len(self.gpu_reasons)
        return Tick(
            gpu=[[1.0] * gpus for _ in GPU],
            gpu_reasons=[list(row) for row in self.gpu_reasons],
            host=[1.0] * len(HOST),
            host_reasons=list(self.host_reasons),
            holds_reasons=list(self.holds_reasons),
            engines=self.engines,
            engine_reasons=self.engine_reasons,
            gpu_labels=self.gpu_labels,
        )

    def events(self) -> list[DeviceEvent]:
        happened, self.happened = self.happened, []
        return happened

    async def close(self) -> None:
        """Nothing to close."""


def kept(spool: Spool, kind: int) -> list[FromAgent]:
    """The records of one kind in the current group."""
    return [decode_from_agent(spool.payload(spool.current, kind, seq) or b"") for seq in spool.current.pending(kind)]


def batches(spool: Spool) -> list[Batch]:
    """The batches of the current group."""
    return [one for one in kept(spool, BATCH) if isinstance(one, Batch)]


def events(spool: Spool) -> list[Event]:
    """The events of the current group."""
    return [one for one in kept(spool, EVENT) if isinstance(one, Event)]


async def ticked(clock: Hand, source: Given, count: int) -> Spool:
    """A spool after `count` ticks."""
    spool, stop = Spool(), asyncio.Event()
    node = NodeLoop("n", source, spool, None, clock)
    left = iter(range(count - 1))
    await run([node], clock, stop, on_tick=lambda: None if next(left, None) is not None else stop.set())
    return spool


async def test_ticks_stand_on_whole_seconds_in_order() -> None:
    """A second is one batch, and seqs count from 0."""
    spool = await ticked(Hand(), Given(), 5)

    assert [batch.t for batch in batches(spool)] == [1_800_000_001.0 + i for i in range(5)]
    assert [batch.seq for batch in batches(spool)] == list(range(5))


async def test_a_timer_that_wakes_early_does_not_double_a_second() -> None:
    """Two batches never share a time."""
    clock = Hand()
    clock.steps = {2: -0.0004, 3: 0.0004}
    spool = await ticked(clock, Given(), 5)
    times = [batch.t for batch in batches(spool)]

    assert len(set(times)) == 5


async def test_a_clock_that_jumps_is_followed_and_told() -> None:
    """Forwards and backwards: the next tick has the new time, and an event says so once each."""
    clock = Hand()
    clock.steps = {3: 3600.0, 5: -7200.0}
    spool = await ticked(clock, Given(), 7)
    times = [batch.t for batch in batches(spool)]

    assert times[2] - times[1] == 3601
    assert times[4] - times[3] == -7199
    assert [event.text for event in events(spool)] == [
        "The node's clock jumped by 3600.0 s.",
        "The node's clock jumped by -7200.0 s.",
    ]


async def test_small_steps_back_bring_no_second_twice() -> None:
    """Two of less than a told jump: time goes on, and no tick counts as less than none late."""
    clock, source, spool, stop = Hand(), Given(), Spool(), asyncio.Event()
    clock.steps = {3: -1.9, 4: -1.9}
    node = NodeLoop("n", source, spool, None, clock)
    left = iter(range(7))
    await run([node], clock, stop, on_tick=lambda: None if next(left, None) is not None else stop.set())
    times = [batch.t for batch in batches(spool)]

    assert times == [1_800_000_001.0 + i for i in range(8)]
    assert node.vitals.late_ticks == 0
    assert events(spool) == []


async def test_a_clock_that_is_set_back_by_little_again_and_again_is_waited_for() -> None:
    """Every second comes once and the ticks do not stop."""
    clock = Hand()
    clock.steps = dict.fromkeys(range(3, 8), -1.9)
    spool = await ticked(clock, Given(), 10)

    assert [batch.t for batch in batches(spool)] == [1_800_000_001.0 + i for i in range(10)]
    assert 19 < clock.mono < 20


async def test_reasons_travel_once_when_they_change() -> None:
    """All at the first batch, then changes alone; None says that a reading is back."""
    source, spool = Given(), Spool()
    node = NodeLoop("n", source, spool, None, Hand())
    source.gpu_reasons[0][3] = "unsupported"
    source.host_reasons[0] = "not_permitted"
    await node.tick(1.0)
    await node.tick(2.0)
    source.gpu_reasons[0][3] = None
    await node.tick(3.0)
    told = [batch.absent for batch in batches(spool)]

    assert told == [
        [AbsentChange(0, GPU[3], "unsupported"), AbsentChange(-1, HOST[0], "not_permitted")],
        [],
        [AbsentChange(0, GPU[3], None)],
    ]


async def test_words_of_engines_and_gpus_travel_once_and_events_have_their_severity() -> None:
    """In the first batch alone, as long as nothing changes."""
    source = Given()
    source.engines = Engines(name=["http://h"], kind=["vllm"], model=[""], pid=[None], values=[[None]] * len(ENGINE))
    source.engine_reasons = [["timeout"] * len(ENGINE)]
    source.gpu_labels = [{"pod": "a"}]
    source.happened = [
        DeviceEvent("memory", None, None, "The host's memory has an uncorrected error.", severity="warn", details={"switch": 1})
    ]
    spool = await ticked(Hand(), source, 3)

    assert [batch.engines.absent for batch in batches(spool)] == [[EngineAbsence("http://h", "timeout", {})], [], []]
    assert [batch.gpu_labels for batch in batches(spool)] == [[GpuLabels(0, {"pod": "a"})], [], []]
    assert [(event.severity, event.details) for event in events(spool)] == [("warn", {"switch": 1})]


async def test_processes_that_cannot_be_listed_are_told_as_absent() -> None:
    """An empty list is "nobody"; without the reason a hung driver would end the job that runs."""
    source, spool = Given(gpus=2), Spool()
    node = NodeLoop("n", source, spool, None, Hand())
    for t, reason in ((1.0, None), (2.0, "timeout"), (3.0, "timeout"), (4.0, None)):
        source.holds_reasons[1] = reason
        await node.tick(t)

    assert [batch.absent for batch in batches(spool)] == [
        [],
        [AbsentChange(1, "processes", "timeout")],
        [],
        [AbsentChange(1, "processes", None)],
    ]


async def test_what_may_not_have_arrived_is_told_again() -> None:
    """A lost batch may have said that processes can be listed again; no value would ever say so of a GPU that nobody holds."""
    source, absences = Given(gpus=2), Absences()
    source.gpu_reasons[0][3] = source.holds_reasons[0] = "timeout"
    told = absences.changes(await source.collect())
    absences.reset()

    assert told == [AbsentChange(0, GPU[3], "timeout"), AbsentChange(0, "processes", "timeout")]
    assert absences.changes(await source.collect()) == [*told, AbsentChange(1, "processes", None)]


async def test_another_inventory_is_another_boot() -> None:
    """Columns follow the hello's GPUs, so seqs and reasons begin anew under it."""
    source, spool = Given(), Spool()
    node = NodeLoop("n", source, spool, None, Hand())
    source.gpu_reasons[0][0] = "timeout"
    await node.tick(1.0)
    first = spool.current.hello.boot
    more = Given(gpus=2)
    source.inventory, source.gpu_reasons = more.inventory, more.gpu_reasons
    source.gpu_reasons[0][0] = "timeout"
    await node.tick(2.0)

    assert spool.current.hello.boot != first
    assert [(batch.seq, batch.absent) for batch in batches(spool)] == [(0, [AbsentChange(0, GPU[0], "timeout")])]
    assert [group.hello.boot for group in spool.earlier()] == [first]


async def test_a_storm_of_equal_events_is_counted() -> None:
    """The first is told at once, the rest of the second as one that counts them; others are not held up."""
    source, spool, clock = Given(), Spool(), Hand()
    node = NodeLoop("n", source, spool, None, clock)
    await node.tick(1.0)
    source.happened = [DeviceEvent("xid", "GPU-0", 45, "XID 45")] * 500 + [DeviceEvent("xid", "GPU-0", 79, "XID 79")]
    node.tell_events()
    assert [(event.code, event.text) for event in events(spool)] == [(45, "XID 45"), (79, "XID 79")]

    await clock.sleep(1.0)
    await node.tick(2.0)
    assert [(event.seq, event.code, event.text) for event in events(spool)][2:] == [(2, 45, "repeated 499 times within 1 s")]


async def test_a_tick_that_fails_is_not_the_end() -> None:
    """One bad second is logged; the next one is collected."""
    source = Given()
    good, calls = source.collect, iter([True])

    async def bad() -> Tick:
        if next(calls, False):
            raise RuntimeError("a defect")
        return await good()

    source.collect = bad  # type: ignore[method-assign] # this one source is to fail
    spool = await ticked(Hand(), source, 3)

    assert [batch.seq for batch in batches(spool)] == [0, 1]


@pytest.mark.parametrize(("code", "text"), [(1 << 70, "x"), (None, "a name \udcff")])
async def test_an_event_that_no_frame_can_hold_costs_itself_alone(code: int | None, text: str) -> None:
    """Those of the same look are kept, seqs have no hole, and that there was one is counted and told, not more than that."""
    source, spool, clock = Given(), Spool(), Hand()
    node = NodeLoop("n", source, spool, None, clock)
    source.happened = [
        DeviceEvent("xid", "GPU-0", 79, "XID 79"),
        DeviceEvent("command_done", None, code, text),
        DeviceEvent("command_done", None, code, text),
        DeviceEvent("xid", "GPU-0", 48, "XID 48"),
    ]
    await node.tick(1.0)

    told = [event for event in events(spool) if event.kind == "agent"]
    assert {event.code for event in events(spool) if event.kind == "xid"} == {79, 48}
    assert [event.seq for event in events(spool)] == list(range(len(events(spool))))
    assert told
    assert all("could not be told" in event.text for event in told)
    assert node.vitals.failed_events == len(told)
    assert len(batches(spool)) == 1


async def test_a_node_whose_name_no_frame_can_hold_does_not_tell_of_that_for_ever() -> None:
    """Telling of an event that cannot be told may fail the same way."""
    source, spool = Given(), Spool()
    node = NodeLoop("n", source, spool, None, Hand())
    await node.tick(1.0)
    node.node = "\udcff"
    source.happened = [DeviceEvent("xid", "GPU-0", 79, "XID 79")]
    node.tell_events()

    assert events(spool) == []
    assert node.vitals.failed_events == 2


async def test_what_happened_is_told_though_every_tick_fails() -> None:
    """A defect in a reading does not keep an XID on the node."""
    source, spool, clock, stop = Given(), Spool(), Hand(), asyncio.Event()
    node = NodeLoop("n", source, spool, None, clock)
    await node.tick(1.0)

    async def bad() -> Tick:
        source.happened = [DeviceEvent("xid", "GPU-0", 79, "XID 79")]
        stop.set()
        raise RuntimeError("a defect")

    source.collect = bad  # type: ignore[method-assign] # this one source is to fail
    await run([node], clock, stop)

    assert [event.code for event in events(spool)] == [79]
    assert node.vitals.failed_ticks == 1


async def test_records_that_the_disk_did_not_give_back_are_told_as_that() -> None:
    """A spool that is not full needs no more room."""
    spool, clock = Spool(), Hand()
    node = NodeLoop("n", Given(), spool, None, clock)
    await node.tick(1.0)
    spool.dropped = spool.unreadable = 3
    await node.tick(2.0)
    spool.dropped, spool.dropped_events, clock.mono = 8, 2, 100.0
    await node.tick(3.0)

    assert [event.text for event in events(spool)] == [
        "The disk did not give back 3 records of the spool, which are lost.",
        "The spool was full: the 5 oldest records were dropped before the server could store them. 2 of them were events.",
    ]


async def test_dropped_records_are_told_of_and_not_every_second() -> None:
    """The server learns that there is a hole, and how large it is."""
    spool, clock = Spool(None, 1 << 12), Hand()
    node = NodeLoop("n", Given(), spool, None, clock)
    for t in range(30):
        await node.tick(float(t))
        await clock.sleep(1.0)
    told = [event.text for event in events(spool) if event.kind == "agent"]

    assert spool.dropped > 5
    assert len(told) == 1
    assert "oldest records were dropped" in told[0]
