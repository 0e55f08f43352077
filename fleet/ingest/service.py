"""What all connections of this process share: the writer, the event desk, who speaks for which node, and the books."""

import asyncio
import logging
import time
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Iterable
from typing import Final

from django.conf import settings
from django.db import Error as DatabaseFault

from fleet.ingest import identity, intake, whereabouts
from fleet.ingest import ledger as ledgers
from fleet.ingest.absence import Source
from fleet.ingest.accept import Session
from fleet.ingest.auth import Tokens
from fleet.ingest.changes import Changes
from fleet.ingest.columns import Chunk, by_session
from fleet.ingest.commands import CommandDesk
from fleet.ingest.connection import Connection
from fleet.ingest.events import Arrived, EventDesk
from fleet.ingest.forwarding import Forwarder
from fleet.ingest.ledger import Ledger
from fleet.ingest.threads import Threads
from fleet.ingest.voice import Voice
from fleet.ingest.window import ring
from fleet.ingest.writer import Writer
from fleet.store.forward import forward
from fleet.store.series import store
from wire.messages import Refused

BOOKS_S: Final = 3.0
STOP_S: Final = 5.0
"""So long a stop may take to store and commit what is here: what hangs is left, and comes again from agents, who were not acked."""
FLUSH_S: Final = STOP_S - 1.0
"""Of it what the store may take, so that what it took just before can still be forwarded."""
LAST_BOOKS_S: Final = 2.0
"""So long the last books may take, after that."""
LAST_THREADS_S: Final = 1.0
"""And so long what no longer matters may hold its thread."""
IDLE_S: Final = 3_600.0
"""A node that has been gone for so long begins anew when it comes back."""
CLOSE_REVOKED: Final = 4403
CLOSE_RESTART: Final = 1012

logger = logging.getLogger(__name__)


class Ingest:
    """What all connections of this process share."""

    def __init__(self) -> None:
        self.process = uuid.uuid4().hex
        self.threads = Threads()
        self.ring = ring()
        self.tokens = Tokens(self.threads)
        self.ledger = Ledger()
        self.meter = intake.Meter()
        to = forward()
        self.forwarder = None if to is None else Forwarder(to, settings.FETTLE_FORWARD_QUEUE_MB * 1_000_000)
        self.writer = Writer(
            store(),
            self.ring,
            self.threads,
            self._stored,
            self.ledger.refuse,
            flush_s=settings.FETTLE_FLUSH_S,
            max_batches=settings.FETTLE_QUEUE_BATCHES,
            max_bytes=settings.FETTLE_QUEUE_MB * 1_000_000,
        )
        self.events = EventDesk(self.threads, self._settled)
        self.changes = Changes()
        self.connections: set[Connection] = set()
        self.by_token: Counter[int] = Counter()
        self.hello_times: dict[int, deque[float]] = {}
        """Of each token, whichever connections they were said on."""
        self.voices: dict[str, Voice] = {}
        self.commands = CommandDesk(self.threads, self.voices)
        self._books: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; call on the event loop."""
        self.writer.start()
        if self.forwarder is not None:
            self.forwarder.start()
        self.events.start()
        self.commands.start()
        self._books = asyncio.get_running_loop().create_task(self._keep_books(), name="ingest-books")

    async def stop(self) -> None:
        """Store and commit what is here, side by side, write the books, end: within the seconds above, whatever hangs."""
        if self._books is not None:
            self._books.cancel()
        await asyncio.gather(
            _within(STOP_S, self.commands.stop(), "Commands"),
            self._stop_writing(),
            _within(STOP_S, self.events.stop(), "Events"),
        )
        await _within(LAST_BOOKS_S, self._write_books(), "The last books")
        await _within(LAST_THREADS_S, asyncio.to_thread(self.threads.close), "A thread")

    async def _stop_writing(self) -> None:
        ends = asyncio.get_running_loop().time() + STOP_S
        await _within(FLUSH_S, self.writer.stop(), "The store")
        if self.forwarder is not None:
            await self.forwarder.stop(ends - asyncio.get_running_loop().time())

    def _stored(self, chunks: list[Chunk], done: list[Source]) -> None:
        self.meter.stored(chunks)
        for session, taken in by_session(chunks).items():
            newest = max(taken, key=lambda one: one.batch.t)
            skew = session.skew.value
            self.ledger.saw(session.node, min(newest.batch.t - (skew or 0.0), newest.at), max(one.at for one in taken))
            voice = self.voices.get(session.node_name)
            if voice is not None and voice.boot == session.boot:
                self.ledger.clock(session.node, skew)
        acked: dict[Session, list[int]] = defaultdict(list)
        for session, seq in done:
            acked[session].append(seq)
        for session, seqs in acked.items():
            session.outbox.ack(session.boot, stored=seqs)
        impossible = Counter((bad.node_name, bad.metric) for chunk in chunks for bad in chunk.impossible)
        for (name, metric), count in impossible.items():
            self.ledger.refuse(name, "out_of_range", f"{metric} has a value that cannot be; it is stored as absent", count)
        if self.forwarder is not None:
            self.forwarder.offer(chunks)

    def _settled(self, stored: list[Arrived], refused: list[Arrived]) -> None:
        for arrived in stored:
            arrived.session.outbox.ack(arrived.session.boot, events=[arrived.event.seq])
        for arrived in refused:
            self.ledger.refuse(arrived.session.node_name, "malformed", "an event that the database cannot hold")
            arrived.session.outbox.ack(arrived.session.boot, events_refused=[Refused(arrived.event.seq, "malformed")])

    async def _keep_books(self) -> None:
        while True:
            await asyncio.sleep(BOOKS_S)
            try:
                await self._write_books()
                await self._look_at_identity()
                await self._end_dead()
                await self._let_go()
                self._forget_idle()
            except Exception:
                logger.exception("Connections' books are not written")  # the next round tries again

    async def _write_books(self) -> None:
        taken = self.ledger.take()
        try:
            numbers = self.meter.numbers(self.writer, len(self.connections))
            if self.forwarder is not None:
                numbers |= self.forwarder.numbers()
            await self.threads.database(intake.write, self.process, numbers)
            await self.threads.database(ledgers.write, taken, self.process)
        except DatabaseFault as error:
            logger.warning("Connections' books are not written, trying again: %s", error)
            self.ledger.put_back(taken)
            self.ledger.gone -= {voice.connection.node for voice in self.voices.values() if voice.connection is not None}

    async def _look_at_identity(self) -> None:
        try:
            await self.threads.database(identity.look)
        except DatabaseFault:
            return  # said by _write_books

    async def _end_dead(self) -> None:
        connections = list(self.connections)
        tokens = {connection.credential.token for connection in connections}
        if not (tokens or self.ring.nodes):
            return
        try:
            revoked, deleted = await self.threads.database(ledgers.dead, tokens, set(self.ring.nodes))
        except DatabaseFault:
            return  # said by _write_books
        for connection in connections:
            if connection.outbox.is_closed:
                continue  # it has been told
            if connection.credential.token in revoked:
                logger.warning("The token of %s was revoked; its connection ends", connection.credential.node_name)
                connection.outbox.end(CLOSE_REVOKED, "the token was revoked")
            elif connection.node in deleted:
                connection.outbox.end(CLOSE_RESTART, "the node was deleted; connect again to enrol it anew")
        for node in deleted:
            self.ring.forget(node)
        for name in [name for name, voice in self.voices.items() if voice.node in deleted and voice.connection is None]:
            self._forget(name)

    async def _let_go(self) -> None:
        """Give way where a node has come to another process; ask where those are that it has."""
        voices = {voice.node: voice for voice in self.voices.values() if voice.node}
        try:
            moved = await self.threads.database(whereabouts.moved, set(voices), self.process)
        except DatabaseFault:
            return  # said by _write_books
        for node, elsewhere in moved.items():
            voice = voices[node]
            if voice.connection is not None and elsewhere is not None:
                voice.connection.give_way(elsewhere)
            voice.is_at(elsewhere)
            if node in self.ring.nodes:
                self.ring.forget(node)

    def forget(self, node: int, gpus: Iterable[int]) -> None:
        """Another process had the node meanwhile: what is remembered of it is old."""
        self.changes.forget(node)
        self.writer.forget(node, gpus)

    def _forget_idle(self) -> None:
        """Let go of what is kept for each node and token and no longer matters."""
        now = time.time()
        for token in [token for token, times in self.hello_times.items() if now - times[-1] > 60]:
            del self.hello_times[token]
        self.events.forget_idle()
        for name in [name for name, voice in self.voices.items() if voice.connection is None and now - voice.ended_at > IDLE_S]:
            self._forget(name)

    def _forget(self, name: str) -> None:
        node = self.voices.pop(name).node
        self.ledger.drop(node, name)
        self.changes.forget(node)


async def _within(seconds: float, end: Awaitable[None], what: str) -> None:
    """Wait for an end no longer than this."""
    try:
        await asyncio.wait_for(end, seconds)
    except TimeoutError:
        logger.warning("%s did not end within %g s and is left as it is", what, seconds)
    except Exception:
        logger.exception("%s did not end well", what)
