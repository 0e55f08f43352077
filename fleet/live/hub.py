"""The hub: one a process. Once a second it builds each view that somebody looks at, once, and sends it to all who do.

It builds only while there are subscribers, here or in another process that asks. A browser that has not taken its last frame
yet misses this one.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from fleet.ingest.window import Ring
from fleet.live import payloads
from fleet.live.exchange import Exchange, View
from fleet.live.payloads import Frame

EVERY_S: Final = 1.0

logger = logging.getLogger(__name__)


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
    """Used on the event loop alone. `broker_url`: the Redis or Valkey over which processes ask one another."""

    def __init__(self, ring: Ring, broker_url: str) -> None:
        self._ring = ring
        self._exchange = Exchange(broker_url, self._answer)
        self._views: dict[View, set[Subscriber]] = defaultdict(set)
        self._of: dict[Subscriber, View] = {}
        self._task: asyncio.Task[None] | None = None
        self._wondered = False

    def start(self) -> None:
        """Answer other processes, and ask them, from now on; without it the hub shows what is in its own ring."""
        self._exchange.start()

    async def stop(self) -> None:
        """Ask and answer no more."""
        await self._exchange.stop()

    async def subscribe(self, subscriber: Subscriber, view: View) -> None:
        """Show this view to the subscriber from now on, its first frame at once."""
        self.unsubscribe(subscriber)
        self._of[subscriber] = view
        self._views[view].add(subscriber)
        subscriber.is_new = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="live-hub")
        await self._show([view], to={subscriber})

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
            await self._show(list(self._views))

    async def _show(self, views: Sequence[View], to: set[Subscriber] | None = None) -> None:
        """Send these views' frames to all who look, or to the newcomers `to` alone."""
        # Its first frame was skipped, or it is not there yet: it needs the history, whatever the others have.
        with_history = [any(one.is_new for one in self._views.get(view, ())) for view in views]
        others = await self._exchange.ask(views, with_history)
        now = time.time()
        for view, has_new, frames in zip(views, with_history, others, strict=True):
            looking = [one for one in self._views.get(view, ()) if to is None or (one in to and one.is_new)]
            if not looking:
                continue
            try:
                frame = self._with(self._frame(view, now, has_new), frames)
                first = payloads.text(frame)
                frame.pop("history", None)
                later = payloads.text(frame) if has_new else first
            except Exception:
                logger.exception("The %s view cannot be built", view.kind)
                continue
            for subscriber in looking:
                subscriber.offer(first if subscriber.is_new else later)

    def _with(self, own: Frame, others: Sequence[Frame]) -> Frame:
        """One frame of all; our own alone where others sent what cannot be merged, as a process of another version might."""
        try:
            return payloads.merged([own, *others])
        except Exception as error:
            if not self._wondered:
                logger.warning("Views are shown without what other processes sent of them, which is no frame: %r", error)
            self._wondered = True
            return own

    def _frame(self, view: View, now: float, with_history: bool) -> Frame:
        if view.kind == "fleet":
            return payloads.fleet(self._ring, now)
        if view.kind == "node":
            return payloads.node(self._ring, view.id, now)
        return payloads.gpu(self._ring, view.id, now, with_history=with_history)

    def _answer(self, view: View, with_history: bool) -> Frame | None:
        """What this process's own ring has of a view that another process's browsers look at; None for nothing."""
        if view.kind == "fleet":
            has_something = bool(self._ring.gpu.slots)
        elif view.kind == "node":
            has_something = view.id in self._ring.nodes
        else:
            has_something = view.id in self._ring.gpu.slots
        return self._frame(view, time.time(), with_history) if has_something else None
