"""One fault, one event: what the driver and the kernel's log both report is told and counted once.

An XID of the same GPU and code from both sides within MERGE_S is one, and the log's text, which names the process, is kept;
for that the driver's waits HOLD_S for the log's. Pairs are one to one, so of a storm each side counts as many as it saw.
A lost GPU is told once, whoever says so first, until it is back.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import structs

from agents.device import DeviceEvent
from agents.source import EventSource

MERGE_S: Final = 5.0
HOLD_S: Final = 0.5
LOST_S: Final = 600.0
"""A loss that the log alone told of is told again after this time; the driver's stands until the GPU is back."""
_OPEN_MAX: Final = 10_000  # as many as either side keeps between two looks

_Side: TypeAlias = Literal["driver", "log"]
_Key: TypeAlias = tuple[str | None, int | None]


class LogEvents(EventSource, Protocol):
    """The log's events."""

    @property
    def is_read(self) -> bool:
        """True while the log is read: the driver's events may wait for its text."""


class _Open:
    """One XID that its other side has not reported yet; `held`: it was not told yet."""

    __slots__ = ("at", "event", "held")

    def __init__(self, event: DeviceEvent, at: float, held: bool) -> None:
        self.event = event
        self.at = at
        self.held = held


class MergedEvents:
    """The events of a driver and of a log; `count_xid` is called once for each XID with the GPU's UUID."""

    def __init__(
        self,
        driver: EventSource,
        kernel: LogEvents | None,
        count_xid: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver = driver
        self._kernel = kernel
        self._count_xid = count_xid
        self._clock = clock
        self._open: dict[tuple[_Side, _Key], deque[_Open]] = {}
        self._out: list[DeviceEvent] = []
        self._lost: dict[str, float] = {}

    def notify(self, on_event: Callable[[], None]) -> None:
        """Call `on_event`, in any thread, as soon as there is something to report."""
        self._driver.notify(on_event)
        if self._kernel is not None:
            self._kernel.notify(on_event)

    def gather(self) -> None:
        """Take and count what was reported; `events` gives it. Called before a tick, so that the tick's counts have it."""
        now = self._clock()
        self._forget(now)
        for event in self._kernel.events() if self._kernel is not None else ():
            self._take(event, "log", now)
        for event in self._driver.events():
            self._take(event, "driver", now)

    def events(self) -> list[DeviceEvent]:
        """What happened since the call before; what waits for its better text is left for the next one."""
        self.gather()
        told, self._out = self._out, []
        return told

    def _take(self, event: DeviceEvent, side: _Side, now: float) -> None:
        if event.kind == "xid":
            self._xid(event, side, now)
        elif event.kind == "gpu_lost" and event.gpu_uuid is not None:
            if now >= self._lost.get(event.gpu_uuid, -LOST_S):
                self._out.append(event)
            self._lost[event.gpu_uuid] = float("inf") if side == "driver" else max(
                now + LOST_S, self._lost.get(event.gpu_uuid, now)
            )  # fmt: skip
        else:
            if event.kind == "gpu_back" and event.gpu_uuid is not None:
                self._lost.pop(event.gpu_uuid, None)
            self._out.append(event)

    def _xid(self, event: DeviceEvent, side: _Side, now: float) -> None:
        key = (event.gpu_uuid, event.code)
        other = self._open.get(("log" if side == "driver" else "driver", key))
        if other and event.gpu_uuid is not None:
            partner = other.popleft()
            if partner.held:  # it is the driver's, so this one's text is the better
                self._out.append(event if event.at is not None else structs.replace(event, at=partner.event.at))
            return
        if event.gpu_uuid is not None:
            self._count_xid(event.gpu_uuid)
        held = side == "driver" and self._kernel is not None and self._kernel.is_read
        if held:
            event = structs.replace(event, at=time.time())
        else:
            self._out.append(event)
        opened = self._open.setdefault((side, key), deque())
        opened.append(_Open(event, now, held))
        if len(opened) > _OPEN_MAX and (oldest := opened.popleft()).held:
            self._out.append(oldest.event)

    def _forget(self, now: float) -> None:
        """Tell what waited long enough, and close what is too old to have another side."""
        for key, opened in list(self._open.items()):
            for one in opened:
                if one.held and now - one.at >= HOLD_S:
                    one.held = False
                    self._out.append(one.event)
            while opened and now - opened[0].at > MERGE_S:
                opened.popleft()
            if not opened:
                del self._open[key]
