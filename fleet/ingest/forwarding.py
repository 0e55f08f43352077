"""Beside the writer: what our own store has taken goes on to the site's database, from a queue with a bound and by a thread of its own.

Nothing waits for it: batches are acked before they come here. While the receiver is slow or away the queue grows to its
bound, then its oldest rows are dropped, counted and told of once; when the receiver takes rows again, that is told of too.
"""

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

import polars as pl
from django.db import Error as DatabaseFault
from django.db import close_old_connections

from fleet.ingest.columns import Chunk
from fleet.inventory.models import Engine
from fleet.store.forward import Forward, Rows
from fleet.store.series import StoreError
from wire.metrics import Scope

MAX_BACKOFF_S: Final = 30.0
DROPPED: Final = ("full", "late", "refused", "gone", "stopped")

A = TypeVar("A")
R = TypeVar("R")

logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """What one write of the store took: frames by scope, and how far clocks are ahead (whole seconds), by node and by GPU."""

    frames: dict[Scope, list[pl.DataFrame]]
    engines: list[pl.DataFrame]
    ahead: dict[int, int]
    gpus_ahead: dict[int, int]
    rows: int
    size: int


class Forwarder:
    """Offered to on the event loop; sends from its thread. The numbers may be read from anywhere."""

    def __init__(self, forward: Forward, max_bytes: int) -> None:
        self._forward = forward
        self._max_bytes = max_bytes
        self._queue: deque[_Waiting] = deque()
        self._news = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ingest-forward", daemon=True)
        self.bytes = 0
        self.sent = 0
        self.dropped: Counter[str] = Counter(dict.fromkeys(DROPPED, 0))
        self.failing: str | None = None
        self._dropped_before = 0  # when it began to fail
        self.succeeded_at: float | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    async def stop(self, within_s: float) -> None:
        """Try for so long to send what is left, and end."""
        self._stopping.set()
        with self._news:
            self._news.notify()
        await asyncio.to_thread(self._thread.join, within_s)
        if left := sum(one.rows for one in self._queue):
            self.dropped["stopped"] += left
            logger.warning("%d rows were not forwarded before the server stopped", left)

    def offer(self, chunks: list[Chunk]) -> None:
        """Queue what these chunks hold of the chosen scopes; never waits. What no longer fits pushes the oldest out."""
        one = self._waiting(chunks)
        if not one.rows:
            return
        with self._news:
            self._queue.append(one)
            self.bytes += one.size
            was_full = self.dropped["full"] > 0
            while self.bytes > self._max_bytes and len(self._queue) > 1:
                self._let_go(self._queue.popleft())
            if self.dropped["full"] and not was_full:
                logger.warning(
                    "The queue of what is to be forwarded is full; its oldest rows are dropped (more of these are only counted)"
                )
            self._news.notify()

    def numbers(self) -> dict[str, float]:
        """Counters and gauges for /metrics."""
        told: dict[str, float] = {f"forward.dropped.{why}": rows for why, rows in self.dropped.items()}
        told |= {"forward.rows": self.sent, "forward.queue_bytes": self.bytes, "forward.failing": float(self.failing is not None)}
        return told if self.succeeded_at is None else told | {"forward.succeeded_at": self.succeeded_at}

    def _waiting(self, chunks: list[Chunk]) -> _Waiting:
        wanted = self._forward.chosen
        frames: dict[Scope, list[pl.DataFrame]] = {
            scope: [frame for chunk in chunks for frame in chunk.frames[scope]] for scope in wanted if scope != "engine"
        }
        engines = [frame for chunk in chunks for frame in chunk.engines] if "engine" in wanted else []
        sessions = {one.session for chunk in chunks for one in chunk.taken}
        ahead = {session.node: session.skew.whole for session in sessions if session.skew.whole}
        gpus_ahead = {gpu: session.skew.whole for session in sessions if session.skew.whole for gpu in session.gpus}
        every = [frame for some in (*frames.values(), engines) for frame in some]
        size = sum(int(frame.estimated_size()) for frame in every)
        return _Waiting(frames, engines, ahead, gpus_ahead, sum(frame.height for frame in every), size)

    def _let_go(self, one: _Waiting) -> None:
        self.bytes -= one.size
        self.dropped["full"] += one.rows

    def _run(self) -> None:
        while (one := self._next()) is not None:
            try:
                for part in self._until(self._parts, one) or ():
                    refused = self._until(self._forward.send, part)
                    if refused is None:
                        self.dropped["stopped"] += part[1].height
                    else:
                        self._succeeds(part[1].height - refused, refused)
            except Exception:
                # Whatever is wrong with these rows, those after them are not to wait for it.
                logger.exception("%d rows cannot be forwarded", one.rows)
                self.dropped["refused"] += one.rows

    def _next(self) -> _Waiting | None:
        with self._news:
            while not self._queue:
                if self._stopping.is_set():
                    return None
                self._news.wait()
            one = self._queue.popleft()
            self.bytes -= one.size
            return one

    def _parts(self, one: _Waiting) -> list[Rows]:
        frames = list(_frames(one))
        found = [self._forward.parts(scope, frame) for scope, frame in frames]
        self.dropped["late"] += sum(late for _, late in found)
        self.dropped["gone"] += one.rows - sum(frame.height for _, frame in frames)  # of engines that the inventory forgot
        return [part for parts, _ in found for part in parts]

    def _until(self, call: Callable[[A], R], arg: A) -> R | None:
        """What the call gives once receiver and database answer; None when the server stops before."""
        failures = 0
        while True:
            close_old_connections()
            try:
                return call(arg)
            except (StoreError, DatabaseFault) as error:
                self._fails(str(error))
            finally:
                close_old_connections()
            if self._stopping.wait(min(MAX_BACKOFF_S, 2.0**failures)):
                return None
            failures = min(failures + 1, 10)

    def _fails(self, why: str) -> None:
        if self.failing is None:
            logger.error("Telemetry is not forwarded, it waits: %s", why)
        self._begins_to_fail(why)

    def _begins_to_fail(self, why: str) -> None:
        if self.failing is None:
            self._dropped_before = self.dropped.total()
        self.failing = why

    def _succeeds(self, sent: int, refused: int) -> None:
        if refused and not self.dropped["refused"]:
            logger.warning("%s refuses %d rows, which are dropped (more of these are only counted)", self._forward.name, refused)
        if refused and not sent:
            self._begins_to_fail("it refuses everything")
        self.dropped["refused"] += refused
        self.sent += sent
        if not sent:
            return
        self.succeeded_at = time.time()
        if self.failing is not None:
            lost = self.dropped.total() - self._dropped_before
            logger.warning("Telemetry is forwarded again; %d rows were dropped meanwhile", lost)
            self.failing = None


def _frames(one: _Waiting) -> Iterator[Rows]:
    """The frames of each scope on the server's clock."""
    for scope, some in one.frames.items():
        if some:
            ahead = one.ahead if scope == "host" else one.gpus_ahead
            yield scope, _moved(pl.concat(some, how="diagonal"), "entity", ahead)
    if one.engines:
        rows = _moved(pl.concat(one.engines, how="diagonal"), "node", one.ahead)
        known = Engine.objects.filter(node__in=rows["node"].unique().to_list()).values_list("node", "name", "pk")
        ids = pl.DataFrame(list(known), schema={"node": pl.Int64, "name": pl.String, "entity": pl.Int64}, orient="row")
        yield "engine", rows.join(ids, on=("node", "name"), maintain_order="left").drop("node", "name")


def _moved(rows: pl.DataFrame, key: str, ahead: dict[int, int]) -> pl.DataFrame:
    if not ahead:
        return rows
    off = pl.col(key).replace_strict(list(ahead), list(ahead.values()), default=0, return_dtype=pl.Int64)
    return rows.with_columns(pl.col("ts") - off)
