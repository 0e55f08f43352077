"""One tick a second for every node that this process speaks for: collect, spool, send.

Ticks stand on whole seconds of the node's clock. Seconds that a late tick missed are left out; a clock that jumps
is followed, and told of.
"""

import asyncio
import contextlib
import logging
import math
import uuid
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from agents.clock import Clock
from agents.device import DeviceEvent
from agents.segment import BATCH, EVENT
from agents.sender import Sender
from agents.source import Absences, Inventory, Source
from agents.spool import Spool
from agents.told_engines import ToldEngines
from agents.told_gpu_labels import ToldGpuLabels
from agents.told_labels import ToldLabels
from agents.told_slow import ToldSlow
from agents.vitals import Delivery, NodeView, Vitals
from wire.codec import encode
from wire.messages import Batch, Event

log = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
JUMP_S: Final = 2.0
"""A step of the clock of more than this is told; less is the steering of NTP."""
BACK_S: Final = 2 * JUMP_S + 1
"""A clock that fell back by no more than this is waited for: a step that is not told in a sleep, and one in the tick after it."""
REPEAT_S: Final = 1.0
"""Equal events within this time travel as one that counts them."""
DROPS_S: Final = 60.0
"""Dropped records are told of once in this time."""
_TEXT_MAX: Final = 500


def agent_version() -> str:
    """The installed version."""
    try:
        return version("fettle")
    except PackageNotFoundError:
        return "unknown"


class NodeLoop:
    """One node: its source, its spool, its sender."""

    def __init__(self, node: str, source: Source, spool: Spool, sender: Sender | None, clock: Clock) -> None:
        self.node = node
        self.source = source
        self.spool = spool
        self.sender = sender
        self.vitals = Vitals()
        """How it fares, for outputs on the node."""
        self._clock = clock
        self._inventory: Inventory | None = None
        self._boot = ""
        self._batch_seq = 0
        self._event_seq = 0
        self._absences = Absences()
        self._labels = ToldLabels()
        self._engines = ToldEngines(clock.monotonic)
        self._gpu_labels = ToldGpuLabels()
        self._slow = ToldSlow(clock.monotonic)
        self._drops_told = self._events_told = self._unreadable_told = 0
        self._drops_at = -math.inf
        self._recent: dict[tuple[str, str | None, int | None], list[float]] = {}  # first told at, repeats since
        self._untold: list[tuple[DeviceEvent, float]] = []

    def view(self) -> NodeView:
        """What outputs on the node see of it."""
        return NodeView(self.node, self.vitals, self._delivery, lambda: str(getattr(self.source, "state", "not_read")))

    def _delivery(self) -> Delivery:
        spool, sender = self.spool, self.sender
        return Delivery(
            connected=sender is not None and sender.is_connected,
            stored=0 if sender is None else sender.stored,
            refused={} if sender is None else dict(sender.refused),
            waiting=spool.waiting,
            waiting_bytes=spool.size_bytes,
            dropped=spool.dropped,
            dropped_events=spool.dropped_events,
            unreadable=spool.unreadable,
            write_errors=spool.write_errors,
        )

    async def tick(self, t: float) -> None:
        """Collect, keep and send one second."""
        tick = await self.source.collect()
        if self.source.inventory is not self._inventory:
            self._begin()
        if self.sender is not None and self.sender.lost_some():
            self._absences.reset()
            self._labels.reset()
            self._engines.reset()
            self._gpu_labels.reset()
            self._slow.reset()
        self._tell_drops()
        batch = Batch(
            node=self.node,
            boot=self._boot,
            seq=self._batch_seq,
            schema=self.spool.current.hello.schema,
            t=t,
            gpu=self._slow.news(tick.gpu, holds=self.sender is not None and self.sender.holds),
            host=tick.host,
            processes=self._labels.news(tick.processes),
            engines=self._engines.news(tick.engines, tick.engine_reasons),
            absent=self._absences.changes(tick),
            gpu_labels=self._gpu_labels.news(tick.gpu_labels),
        )
        self._batch_seq += 1
        self.vitals.take(self.source.inventory, tick, t, self._clock.monotonic())
        self._keep(BATCH, batch.seq, encode(batch))
        self.tell_events()

    def _tell_drops(self) -> None:
        """Tell the server of records that never reached it, not more often than DROPS_S."""
        now = self._clock.monotonic()
        if self.spool.dropped > self._drops_told and now - self._drops_at >= DROPS_S:
            lost, self._drops_told, self._drops_at = self.spool.dropped - self._drops_told, self.spool.dropped, now
            unread, self._unreadable_told = self.spool.unreadable - self._unreadable_told, self.spool.unreadable
            text = f"The disk did not give back {unread} records of the spool, which are lost." if unread else ""
            if lost > unread:
                text = f"The spool was full: the {lost - unread} oldest records were dropped before the server could store them. {text}".rstrip()
            if events := self.spool.dropped_events - self._events_told:
                self._events_told = self.spool.dropped_events
                text += f" {events} of them were events."
            self.tell(DeviceEvent("agent", None, None, text), self._clock.now())

    def tell_events(self) -> None:
        """Keep and send what happened since the call before."""
        now = self._clock.now()
        for event in self.source.events():
            self.tell(event, now)
        if not self._boot:
            return
        untold, self._untold = self._untold, []
        for event, at in untold:
            self._event(event.kind, event.gpu_uuid, event.code, event.text, at, event.severity, event.details)
        for key, (told_at, repeats) in list(self._recent.items()):
            if not 0 <= now - told_at < REPEAT_S:
                del self._recent[key]
                if repeats:
                    kind, gpu_uuid, code = key
                    self._event(kind, gpu_uuid, code, f"repeated {repeats:.0f} times within {REPEAT_S:.0f} s", now)

    def say_bye(self) -> None:
        """Tell the server that this agent was stopped in order: that nothing comes from the node now is no fault of it."""
        self.tell(DeviceEvent("bye", None, None, "The agent was stopped."), self._clock.now())
        self.tell_events()

    @property
    def was_heard(self) -> bool:
        """True when nothing that happened waits for the server, or nobody could take it now."""
        if not self._boot or self.sender is None or not self.sender.is_connected:
            return True
        return not self.spool.current.places[EVENT]

    def tell(self, event: DeviceEvent, at: float) -> None:
        """Tell of one event; equal ones that follow at once are counted, so that a storm is two events a second."""
        at = at if event.at is None else event.at
        key = (event.kind, event.gpu_uuid, event.code)
        if event.kind == "xid" and event.gpu_uuid is not None and event.code is not None:
            self.vitals.xids[event.gpu_uuid] = event.code
        recent = self._recent.get(key)
        if recent is not None and event.code is not None and 0 <= at - recent[0] < REPEAT_S:
            recent[1] += 1
            return
        self._recent[key] = [at, 0]
        self._untold.append((event, at))

    def _event(
        self,
        kind: str,
        gpu_uuid: str | None,
        code: int | None,
        text: str,
        at: float,
        severity: str | None = None,
        details: dict[str, int | str] | None = None,
    ) -> None:
        event = Event(
            node=self.node,
            boot=self._boot,
            seq=self._event_seq,
            t=at,
            kind=kind,
            gpu_uuid=gpu_uuid,
            code=code,
            text=text[:_TEXT_MAX],
            severity=severity,
            details=details or {},
        )
        try:
            payload = encode(event)
        except Exception as error:  # a number or a word that no frame can hold; those beside it are kept
            self.vitals.failed_events += 1
            log.exception("An event of kind %s cannot be told, and is counted", ascii(kind))
            if event.text != (told := f"An event could not be told: {type(error).__name__}; the agent's log has the details."):
                self._event("agent", None, None, told, self._clock.now())
            return
        self._event_seq += 1
        self._keep(EVENT, event.seq, payload)

    def _keep(self, kind: int, seq: int, payload: bytes) -> None:
        self.spool.append(kind, seq, payload)
        if self.sender is not None:
            self.sender.offer(kind, seq)

    def _begin(self) -> None:
        """A new hello, and with it a new boot: columns follow the hello's GPUs, so seqs begin anew too."""
        self._inventory = self.source.inventory
        self._boot = uuid.uuid4().hex
        self._batch_seq = self._event_seq = 0
        self._absences, self._gpu_labels = Absences(), ToldGpuLabels()
        self._labels.reset()
        self._engines.reset()
        self._slow.reset()
        self.spool.begin(self._inventory.hello(self.node, self._boot, agent_version(), INTERVAL_S))
        if self.sender is not None:
            self.sender.begin()


async def run(nodes: Sequence[NodeLoop], clock: Clock, stop: asyncio.Event, on_tick: Callable[[], None] | None = None) -> None:
    """Tick all nodes on every whole second until `stop` is set."""
    offset = clock.now() - clock.monotonic()
    last = -math.inf
    while not stop.is_set():
        now = clock.now()
        due = math.floor(now) + 1
        if due <= last <= now + BACK_S:
            due = int(last) + 1  # the timer woke a little early, or the clock was set back a little: no second comes twice
        await clock.sleep(due - now)
        if stop.is_set():
            return
        jump = (clock.now() - clock.monotonic()) - offset
        offset += jump
        if abs(jump) > JUMP_S:
            log.warning("This node's clock jumped by %.1f s; ticks follow it.", jump)
            for node in nodes:
                node.tell(DeviceEvent("agent", None, None, f"The node's clock jumped by {jump:.1f} s."), clock.now())
            due = math.floor(clock.now())
        elif math.isfinite(last):
            for node in nodes:
                node.vitals.late_ticks += due - int(last) - 1
        last = due
        if len(nodes) == 1:
            await _tick(nodes[0], float(due))  # without a task of its own
        else:
            await asyncio.gather(*(_tick(node, float(due)) for node in nodes))
        if on_tick is not None:
            on_tick()


async def _tick(node: NodeLoop, t: float) -> None:
    try:
        await node.tick(t)
    except Exception:
        node.vitals.failed_ticks += 1
        log.exception("A tick of %s failed; the next one is tried as usual", node.node)
        with contextlib.suppress(Exception):  # of the same kind, and said
            node.tell_events()  # what happened does not wait for the reading to be whole
