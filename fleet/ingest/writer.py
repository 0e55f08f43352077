"""The one writer: batches in, columns each second, the store each few seconds, acks for exactly what it took.

While the store cannot write, nothing is acked and the queue grows to its bounds; then new batches are refused
`busy`, which agents keep and send again. A kill loses what was not acked, and agents send that again too; the
store keeps one row for each key, so nothing doubles. A batch whose absences wait for their node's share is stored at
once and acked once they are written: of it only the number is kept.
"""

import asyncio
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import polars as pl
from django.db import Error as DatabaseFault

from fleet.ingest import gpu_labels
from fleet.ingest.absence import AbsenceBook, Source
from fleet.ingest.columns import SCOPES, Accepted, Chunk, gather
from fleet.ingest.engines import resolve
from fleet.ingest.labels import LabelBook
from fleet.ingest.threads import Threads
from fleet.ingest.underway import Underway
from fleet.ingest.window import Ring
from fleet.store.deferred import Pending, forget, send
from fleet.store.series import Series, StoreError, TooOldError
from wire.codec import WireError
from wire.messages import Refused
from wire.metrics import Scope

GATHER_S: Final = 1.0
MAX_BACKOFF_S: Final = 30.0
MAX_UNSTORED: Final = 2_000
"""Of one connection: one agent's backlog must not fill the queue of all."""
NODES_AT_LEAST: Final = 8
"""So many nodes share the queue's bytes at worst, over whichever connections: a batch of thousands of holds takes a megabyte.
A node with 64 GPUs takes a tenth of its share while its backlog comes at the full rate."""

_NUMBER: Final = re.compile(r"\d+")

logger = logging.getLogger(__name__)


class QueueFullError(WireError):
    """The batch is refused for no fault of its agent."""


class Writer:
    """Owned by the event loop; the work is done on `threads`. `stored` is told, on the loop, what was written and which batches to ack."""

    def __init__(
        self,
        series: Series,
        ring: Ring,
        threads: Threads,
        stored: Callable[[list[Chunk], list[Source]], None],
        refuse: Callable[[str, str, str], None],
        *,
        flush_s: float,
        max_batches: int,
        max_bytes: int,
    ) -> None:
        self._series = series
        self._ring = ring
        self._threads = threads
        self._stored = stored
        self._refuse = refuse
        self._flush_s = flush_s
        self._max_batches = max_batches
        self._max_bytes = max_bytes
        self._queue: list[Accepted] = []
        self._gathered: list[Chunk] = []
        self._absences = AbsenceBook()
        self._labels = LabelBook()
        self._unacked: Counter[Source] = Counter()  # stored, but for their absences
        self._moved: set[int] = set()
        self.batches = 0
        self.bytes = 0
        self._bytes_of: Counter[int] = Counter()  # by node
        self.failing: str | None = None
        self._underway = Underway()
        self._confirming: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; call on the event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ingest-writer")

    async def stop(self) -> None:
        """Write what is left, once, and end.

        Whether it is durable is not waited for: nobody hears acks any more, and what was not acked comes again.
        """
        self._stopping.set()
        if self._task is not None:
            await self._task

    def put(self, one: Accepted) -> None:
        """Queue a batch; WireError `busy` when the queue is at its bounds."""
        if one.session.outbox.unstored >= MAX_UNSTORED:
            raise WireError("busy", f"{MAX_UNSTORED} batches of this connection wait to be stored", one.batch.seq)
        if self.batches >= self._max_batches or self.bytes + one.size > self._max_bytes:
            raise QueueFullError("busy", "the queue is full: the store is slow or refuses to write", one.batch.seq)
        mine = self._bytes_of[one.session.node]
        if mine and mine + one.size > self._max_bytes // NODES_AT_LEAST:  # one alone is taken whatever its size
            raise WireError("busy", f"{mine // 1_000_000} MB of this node wait to be stored", one.batch.seq)
        self._queue.append(one)
        one.session.outbox.unstored += 1
        self.batches += 1
        self.bytes += one.size
        self._bytes_of[one.session.node] += one.size

    def forget(self, node: int, gpus: Iterable[int]) -> None:
        """Read anew, before its next batch is stored, what the database and the store say of a node that another process had."""
        self._moved.add(node)
        forget(self._series, node, gpus)

    async def _run(self) -> None:
        next_flush = time.monotonic() + self._flush_s
        flushing: asyncio.Task[bool] | None = None
        failures = 0
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), min(GATHER_S, self._flush_s / 4))
            await self._gather()
            if flushing is not None and flushing.done():
                failures = 0 if flushing.result() else failures + 1
                flushing = None
                if failures:
                    next_flush = time.monotonic() + min(MAX_BACKOFF_S, 2.0 ** min(failures - 1, 10))
            now = time.monotonic()
            if flushing is None and now >= next_flush and (self._gathered or self._unacked):
                flushing = asyncio.get_running_loop().create_task(self._flush(), name="ingest-flush")
                next_flush = now + self._flush_s
        if flushing is not None:
            await flushing
        await self._gather()
        if self._gathered:
            await self._flush()
        for task in self._confirming:
            task.cancel()
        await asyncio.gather(*self._confirming, return_exceptions=True)

    async def _gather(self) -> None:
        queue, self._queue = self._queue, []
        if not queue:
            return
        try:
            self._gathered.append(await self._threads.columns(gather, queue, self._ring))
        except Exception:
            # The checks let something through that columns cannot be made of: one bad batch must not cost the others.
            logger.exception("Columns could not be made of %d batches; trying them one by one", len(queue))
            for one in queue:
                try:
                    self._gathered.append(await self._threads.columns(gather, [one], self._ring))
                except Exception as error:
                    self._drop(one, error)

    async def _flush(self) -> bool:
        """True when the store took something of what was gathered, or nothing had to be kept; it is acked once durable."""
        group, self._gathered = self._gathered, []
        self._underway.add(group)
        try:
            self._took(group, await self._send(group))
        except (StoreError, DatabaseFault, OSError) as error:
            self._keep(group, str(error))
            return False
        except Exception as error:
            if self._confirming:  # what was sent before may be lost, and has to be stored before
                await asyncio.wait(self._confirming)
            if not self._underway.has(group):
                return False
            # Not the disk's fault: something in these batches. Find it, so that one bad batch does not cost the others.
            if self.failing is None:
                logger.exception(
                    "%d batches could not be stored together; looking for the bad one", sum(len(c.taken) for c in group)
                )
            later: list[Chunk] = []
            bad: list[tuple[Accepted, Exception]] = []
            if not await self._salvage([one for chunk in group for one in chunk.taken], later, bad):
                self._keep(group, f"{type(error).__name__}: {error}")  # nothing can be stored, so no batch is to blame
                return False
            self._underway.end(group)
            self._gathered[:0] = later
            guilty: list[tuple[Accepted, Exception]] = []
            once_more: list[Chunk] = []
            for one, _ in bad:  # a store that took nothing until a moment ago blames none of them
                await self._salvage([one], once_more, guilty)
            self._gathered[:0] = once_more
            for one, why in guilty:
                self._drop(one, why)
        return True

    async def _send(self, group: list[Chunk]) -> Pending | None:
        """As `_write`, but that batches which are older than what the store keeps are dropped, from the group too, and cost the others nothing."""
        while True:
            try:
                return await self._threads.store(self._write, group)
            except TooOldError as error:
                taken = [one for chunk in group for one in chunk.taken]
                old = [one for one in taken if math.floor(one.batch.t) < error.before]
                if not old:
                    raise
                young = [one for one in taken if math.floor(one.batch.t) >= error.before]
                made = [await self._threads.columns(gather, young, self._ring)] if young else []
                if not self._underway.has(group):
                    return None  # recalled meanwhile: it is sent again as it was
                group[:] = made
                for one in old:
                    self._drop(one, error)

    def _took(self, group: list[Chunk], pending: Pending | None) -> None:
        """Ack what the store took, at once or when it is durable; the flush does not wait for that."""
        if not self._underway.has(group):
            return
        if pending is None:
            self._underway.end(group)
            self._acknowledge(group)
            return
        before = self._confirming[-1] if self._confirming else None
        task = asyncio.get_running_loop().create_task(self._confirm(group, pending, before), name="ingest-confirm")
        self._confirming.append(task)
        task.add_done_callback(self._confirming.remove)

    async def _confirm(self, chunks: list[Chunk], pending: Pending, before: asyncio.Task[None] | None) -> None:
        """Ack what the store took once it is durable there, and what was sent `before` too; meanwhile others are written."""
        try:
            await asyncio.sleep(pending.after_s)
            await asyncio.to_thread(pending.check)
            if before is not None:
                await asyncio.wait([before])
            if not self._underway.has(chunks):
                return
            await self._threads.store(self._note, chunks)
        except (StoreError, DatabaseFault, OSError) as error:
            self._keep(chunks, str(error))
        except Exception as error:
            logger.exception("Batches are sent to the store again: whether it has them is not known")
            self._keep(chunks, f"{type(error).__name__}: {error}")
        else:
            self._underway.end(chunks)
            self._acknowledge(chunks)

    def _acknowledge(self, chunks: list[Chunk]) -> None:
        if self.failing is not None:
            logger.warning("Telemetry is stored again")
            self.failing = None
        self._stored(chunks, self._settle(chunks))

    def _settle(self, chunks: list[Chunk]) -> list[Source]:
        """Let go of what was written; the batches of which all is durable by now."""
        for chunk in chunks:
            self._free(chunk.taken)
            self._unacked.update((one.session, one.batch.seq) for one in chunk.taken)
        held = self._absences.held()
        done = [source for source in self._unacked if source not in held]
        for source in done:
            source[0].outbox.unstored -= self._unacked.pop(source)
        return done

    def _keep(self, chunks: list[Chunk], why: str) -> None:
        if not self._underway.has(chunks):
            return  # recalled with what was sent before it
        self._gathered[:0] = self._underway.recall(chunks)
        # Counts in the message differ from try to try; what is wrong does not.
        if self.failing is None or _NUMBER.sub("", self.failing) != _NUMBER.sub("", why):
            logger.error("Telemetry is not stored, agents keep it: %s", why)
        self.failing = why

    async def _salvage(self, taken: list[Accepted], later: list[Chunk], bad: list[tuple[Accepted, Exception]]) -> bool:
        """Sort batches by halving: True when the store took some, which wait side by side to be durable; what the disk refused; what alone could not be stored."""
        group: list[Chunk] = []
        self._underway.add(group)
        try:
            group.append(await self._threads.columns(gather, taken, self._ring))
            self._took(group, await self._threads.store(self._write, group))
        except (StoreError, DatabaseFault, OSError):
            if self._underway.has(group):  # else recalled meanwhile: it is sent again
                self._underway.end(group)
                later.extend(group)
            return False
        except Exception as error:
            if not self._underway.has(group):
                return False
            self._underway.end(group)
            if len(taken) == 1:
                bad.append((taken[0], error))
                return False
            middle = len(taken) // 2
            # Not `or`: both halves have good batches.
            return any([await self._salvage(half, later, bad) for half in (taken[:middle], taken[middle:])])
        return True

    def _drop(self, one: Accepted, error: Exception) -> None:
        """Give up a batch that no column or no store can hold: log why, tell its agent that it is refused."""
        old = isinstance(error, TooOldError)
        if not old:  # no defect; the refusals' log has it once
            logger.error(
                "A batch of %s (seq %d) is dropped: it cannot be stored", one.session.node_name, one.batch.seq, exc_info=error
            )
        self._free([one])
        one.session.outbox.unstored -= 1
        code = "bad_time" if old else "malformed"
        self._refuse(
            one.session.node_name, code, str(error) if old else "a batch that the store cannot hold; the server's log says why"
        )
        one.session.outbox.ack(one.session.boot, refused=[Refused(one.batch.seq, code)])

    def _write(self, chunks: list[Chunk]) -> Pending | None:
        """None when all of it is durable and noted; else what to wait for, before it is to be noted."""
        frames: dict[Scope, pl.DataFrame] = {}
        for scope in SCOPES:
            some = [frame for chunk in chunks for frame in chunk.frames[scope]]
            if some:
                frames[scope] = pl.concat(some, how="diagonal")
        engines = resolve(chunks)
        if engines is not None:
            frames["engine"] = engines
        pending = send(self._series, frames)
        if pending is None:
            self._note(chunks)
        return pending

    def _note(self, chunks: list[Chunk]) -> None:
        """Write what chunks say beside numbers."""
        while self._moved:
            node = self._moved.pop()
            self._absences.forget(node)
            self._labels.forget(node)
        self._absences.apply(chunks)
        self._labels.apply(chunks)
        gpu_labels.apply(chunks)

    def _free(self, taken: list[Accepted]) -> None:
        for one in taken:
            self.batches -= 1
            self.bytes -= one.size
            self._bytes_of[one.session.node] -= one.size
            if not self._bytes_of[one.session.node]:
                del self._bytes_of[one.session.node]
