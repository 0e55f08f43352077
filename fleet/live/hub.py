"""The hub: one a process. Once a second it builds each view that somebody looks at, once, and sends it to all who do.

It runs only while there are subscribers. A browser that has not taken its last frame yet misses this one.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from fleet.ingest.window import Ring
from fleet.live import payloads

EVERY_S: Final = 1.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class View:
    """What a page looks at; `id` is 0 for the fleet."""

    kind: Literal["fleet", "node", "gpu"]
    id: int = 0


class Subscriber:
    """One browser. `send` takes a text frame."""

    def __init__(self, send: Callable[[str], Awaitable[None]]) -> None:
        self._send = send
        self._sending: asyncio.Task[None] | None = None
        self.is_new = True
        self.skipped = 0

    def offer(self, frame: str) -> None:
        """Send the frame, unless the one before is still on its way."""
        if self._sending is not None and not self._sending.done():
            self.skipped += 1
            return
        self.is_new = False
        self._sending = asyncio.get_running_loop().create_task(self._deliver(frame))

    async def _deliver(self, frame: str) -> None:
        with suppress(OSError, RuntimeError):  # it went away; its consumer is told by a disconnect
            await self._send(frame)


class Hub:
    """Used on the event loop alone."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._views: dict[View, set[Subscriber]] = defaultdict(set)
        self._of: dict[Subscriber, View] = {}
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, subscriber: Subscriber, view: View) -> None:
        """Show this view to the subscriber from now on, its first frame at once."""
        self.unsubscribe(subscriber)
        self._of[subscriber] = view
        self._views[view].add(subscriber)
        subscriber.is_new = True
        subscriber.offer(self._build(view, time.time(), is_new=True))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="live-hub")

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Show nothing to the subscriber any more."""
        view = self._of.pop(subscriber, None)
        if view is not None:
            self._views[view].discard(subscriber)
            if not self._views[view]:
                del self._views[view]

    async def _run(self) -> None:
        while self._views:
            await asyncio.sleep(EVERY_S)
            now = time.time()
            for view, subscribers in list(self._views.items()):
                try:
                    self._show(view, subscribers, now)
                except Exception:
                    logger.exception("The %s view cannot be built", view.kind)

    def _show(self, view: View, subscribers: set[Subscriber], now: float) -> None:
        frame = self._build(view, now, is_new=False)
        for subscriber in subscribers:
            # Its first frame was skipped: an earlier view's was still on its way.
            subscriber.offer(self._build(view, now, is_new=True) if subscriber.is_new else frame)

    def _build(self, view: View, now: float, is_new: bool) -> str:
        if view.kind == "fleet":
            return payloads.fleet(self._ring, now)
        if view.kind == "node":
            return payloads.node(self._ring, view.id, now)
        return payloads.gpu(self._ring, view.id, now, with_history=is_new)
