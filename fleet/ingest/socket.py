"""`/ws/agent/`: a bare ASGI callable, because a stock consumer costs four times as much for each message.

A token before the connection is accepted (else HTTP 403), a hello first, then batches and events. A frame that is
refused gets an Error that names why; the frames before and after it are unharmed.

An agent may hold several connections, and say several hellos on one: the backlog of an earlier boot travels under
that boot's hello. One connection *speaks for the node*: its hello is what the inventory shows. That is the first
one, and after it whoever sends newer batches than it did, once it is gone, silent for SILENT_S, or of the same boot.
Newer batches of another boot while it still speaks are two agents with one token: both are stored (the store keeps
one row for each GPU and second), and it is counted and logged as `conflict`.
"""

import asyncio
import contextlib
import gc
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.db import Error as DatabaseFault
from msgspec import structs

from fleet.ingest import ledger as ledgers
from fleet.ingest.accept import (
    MAX_SEQ,
    MAX_SKEW_S,
    Session,
    Skew,
    calls_itself,
    check_batch,
    check_event,
    check_hello,
    clean,
    weight,
)
from fleet.ingest.auth import Credential, Tokens
from fleet.ingest.columns import Accepted, Chunk
from fleet.ingest.events import Arrived, EventDesk
from fleet.ingest.ledger import Ledger
from fleet.ingest.outbox import Outbox, Send
from fleet.ingest.roster import Enrolled, enrol
from fleet.ingest.threads import Threads
from fleet.ingest.window import ring
from fleet.ingest.writer import Writer, by_session
from fleet.store.series import store
from wire.codec import WireError, decode_from_agent
from wire.messages import Batch, Error, Event, Hello, Refused, Welcome

Receive = Callable[[], Awaitable[dict[str, Any]]]

HELLO_WITHIN_S: Final = 15.0
SILENT_S: Final = 10.0
OVERLAP_S: Final = 2.0
MAX_CONNECTIONS: Final = 8
"""Of one token: an agent has one, and one more while it delivers what an earlier run left behind."""
BOOKS_S: Final = 3.0
MAX_SESSIONS: Final = 16
MAX_HELLOS_A_MINUTE: Final = 30
PATIENCE: Final = 20
"""Refusals in a row after which the connection is read more slowly."""
NOT_FOR_GOOD: Final = ("busy", "need_hello")
"""Refusals after which the agent keeps the batch: they never appear in Ack.refused."""
CLOSE_POLICY, CLOSE_REVOKED, CLOSE_TIMEOUT, CLOSE_RESTART, CLOSE_LATER = 1008, 4403, 4408, 1012, 1013

logger = logging.getLogger(__name__)


class Ingest:
    """What all connections of this process share."""

    def __init__(self) -> None:
        self.threads = Threads()
        self.ring = ring()
        self.tokens = Tokens(self.threads)
        self.ledger = Ledger()
        self.writer = Writer(
            store(),
            self.ring,
            self.threads,
            self._stored,
            flush_s=settings.FETTLE_FLUSH_S,
            max_batches=settings.FETTLE_QUEUE_BATCHES,
            max_bytes=settings.FETTLE_QUEUE_MB * 1_000_000,
        )
        self.events = EventDesk(self.threads, self._settled)
        self.connections: set[Connection] = set()
        self.by_token: Counter[int] = Counter()
        self.hello_times: dict[int, deque[float]] = {}
        """Of each token, whichever connections they were said on."""
        self.voices: dict[str, Voice] = {}
        self._books: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin; call on the event loop."""
        self.writer.start()
        self.events.start()
        self._books = asyncio.get_running_loop().create_task(self._keep_books(), name="ingest-books")

    async def stop(self) -> None:
        """Store and commit what is here, write the books, end."""
        if self._books is not None:
            self._books.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._books
        await self.writer.stop()
        await self.events.stop()
        await self._write_books()
        self.threads.close()

    def _stored(self, chunks: list[Chunk]) -> None:
        for session, taken in by_session(chunks).items():
            session.outbox.ack(session.boot, stored=[one.batch.seq for one in taken])
            newest = max(taken, key=lambda one: one.batch.t)
            skew = session.skew.value
            voice = self.voices.get(session.node_name)
            told = skew if voice is not None and voice.boot == session.boot else None
            self.ledger.saw(session.node, min(newest.batch.t - (skew or 0.0), newest.at), told)
        impossible = Counter((bad.node_name, bad.metric) for chunk in chunks for bad in chunk.impossible)
        for (name, metric), count in impossible.items():
            self.ledger.refuse(name, "out_of_range", f"{metric} has a value that cannot be; it is stored as absent", count)

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
                await self._end_dead()
            except Exception:
                logger.exception("Connections' books are not written")  # the next round tries again

    async def _write_books(self) -> None:
        taken = self.ledger.take()
        try:
            await self.threads.database(ledgers.write, taken)
        except DatabaseFault as error:
            logger.warning("Connections' books are not written, trying again: %s", error)
            self.ledger.put_back(taken)
            self.ledger.gone -= {voice.connection.node for voice in self.voices.values() if voice.connection is not None}

    async def _end_dead(self) -> None:
        connections = list(self.connections)
        tokens = {connection.credential.token for connection in connections}
        nodes = {connection.node for connection in connections if connection.node}
        if not tokens:
            return
        try:
            revoked, deleted = await self.threads.database(ledgers.dead, tokens, nodes)
        except DatabaseFault:
            return  # said by _write_books
        for connection in connections:
            if connection.credential.token in revoked:
                logger.warning("The token of %s was revoked; its connection ends", connection.credential.node_name)
                await connection.outbox.close(CLOSE_REVOKED, "the token was revoked")
            elif connection.node in deleted:
                await connection.outbox.close(CLOSE_RESTART, "the node was deleted; connect again to enrol it anew")


@dataclass(slots=True)
class Voice:
    """Which connection speaks for a node, by the times of its batches on the node's own clock."""

    connection: "Connection | None"
    boot: str = ""
    first_t: float = math.inf
    newest_t: float = -math.inf
    silent_s: float = SILENT_S


class Connection:
    """One agent's socket."""

    def __init__(self, ingest: Ingest, credential: Credential, outbox: Outbox) -> None:
        self.ingest = ingest
        self.credential = credential
        self.outbox = outbox
        self.node = 0
        self.heard_at = time.time()
        self._sessions: dict[tuple[str, str], Session] = {}
        self._hellos: dict[tuple[str, str], Hello] = {}
        self._refused_in_a_row = 0
        self._conflict_noted = False
        self._skew = Skew()  # of the node, whichever boot's batches travel here

    async def run(self, receive: Receive) -> None:
        """Read frames until the peer goes, or is closed."""
        while True:
            if not self._sessions:
                try:
                    message = await asyncio.wait_for(receive(), HELLO_WITHIN_S)
                except TimeoutError:
                    await self.outbox.close(CLOSE_TIMEOUT, f"no hello within {HELLO_WITHIN_S:.0f} s")
                    return
            else:
                message = await receive()
            if message["type"] != "websocket.receive":
                return
            if self.outbox.is_closed:
                continue  # until the peer answers the close
            frame: bytes | str | None = message.get("bytes")
            if frame is None:
                frame = message["text"]
            await self._take(frame)

    async def _take(self, frame: bytes | str) -> None:
        self.outbox.speaks_text = isinstance(frame, str)
        self.heard_at = time.time()
        decoded: Hello | Batch | Event | None = None
        try:
            decoded = decode_from_agent(frame)
            if isinstance(decoded, Batch):
                session = self._batch(decoded, len(frame))
                takes_over = self._listen(session, decoded.t)
                voice = self.ingest.voices.get(session.node_name)
                if takes_over or voice is None or (voice.connection is self and voice.boot == session.boot):
                    session.skew.learn(decoded.t, self.heard_at)  # an earlier boot's backlog says nothing of the clock
                if takes_over:
                    hello = self._hellos[session.boot, session.layout.schema]
                    session.is_first = (await self._enrol(hello, speaks=True)).is_new_boot
                    self._listen(session, decoded.t)
            elif isinstance(decoded, Event):
                self._event(decoded)
            else:
                await self._hello(decoded)
        except WireError as error:
            await self._refuse(error, decoded, frame)
        else:
            self._refused_in_a_row = 0

    def _batch(self, batch: Batch, size: int) -> Session:
        session = self._session(batch.node, batch.boot, batch.seq, batch.schema)
        try:
            check_batch(batch, session, self.heard_at)
        except WireError as error:
            if error.code == "bad_time" and 0 < batch.t - self.heard_at < MAX_SKEW_S:
                self.ingest.ledger.clock(session.node, batch.t - self.heard_at)  # nothing of it is stored, so say why
            raise
        self.ingest.writer.put(Accepted(session, batch, self.heard_at, size + weight(batch)))
        return session

    def _event(self, event: Event) -> None:
        session = self._session(event.node, event.boot, event.seq, None)
        check_event(event, self.heard_at)
        self.ingest.events.put(Arrived(session, event, self.heard_at))

    def _session(self, node: str, boot: str, seq: int, schema: str | None) -> Session:
        """The session that a frame belongs to; `schema` is None for events, which any session of their boot may bring."""
        session = self._sessions.get((boot, schema)) if schema is not None else None
        if node == self.credential.node_name and session is not None and 0 <= seq < MAX_SEQ:
            return session
        if node != self.credential.node_name:
            raise WireError("wrong_node", f"the token is {self.credential.node_name}'s, the frame says {clean(node, 60)!r}", seq)
        if not 0 <= seq < MAX_SEQ:
            raise WireError("malformed", f"seq {seq}", seq)
        if not self._sessions:
            raise WireError("need_hello", "no hello was given on this connection", seq)
        of_boot = [session for (known, _), session in self._sessions.items() if known == boot]
        if not of_boot:
            raise WireError("wrong_boot", f"no hello of boot {clean(boot, 64)!r} was given on this connection", seq)
        if schema is None:
            return of_boot[-1]
        raise WireError("need_hello", f"schema {clean(schema, 40)!r} was not announced on this connection", seq)

    async def _hello(self, hello: Hello) -> None:
        layout = check_hello(hello, self.credential.node_name)
        self._skew.hello(hello.t, self.heard_at)
        hello = structs.replace(hello, t=None)  # said again, it is the same hello
        key = (hello.boot, layout.schema)
        if self._hellos.get(key) != hello:
            times = self.ingest.hello_times.setdefault(self.credential.token, deque(maxlen=MAX_HELLOS_A_MINUTE))
            if len(times) == MAX_HELLOS_A_MINUTE and self.heard_at - times[0] < 60:
                raise WireError("busy", f"more than {MAX_HELLOS_A_MINUTE} hellos in a minute")
            times.append(self.heard_at)
            voice = self.ingest.voices.get(hello.node)
            speaks = voice is None or voice.boot == hello.boot
            enrolled = await self._enrol(hello, speaks)
            if len(self._sessions) >= MAX_SESSIONS:
                oldest = next(iter(self._sessions))
                del self._sessions[oldest], self._hellos[oldest]
            self._hellos[key] = hello
            self._sessions[key] = Session(
                node=enrolled.node,
                node_name=hello.node,
                boot=hello.boot,
                layout=layout,
                gpus=enrolled.gpus,
                gpu_by_uuid={facts.uuid: pk for facts, pk in zip(hello.gpus, enrolled.gpus, strict=True)},
                outbox=self.outbox,
                skew=self._skew,
                is_first=enrolled.is_new_boot,
            )
        await self.outbox.send(Welcome(schema=layout.schema))

    async def _enrol(self, hello: Hello, speaks: bool) -> Enrolled:
        """The rows of a hello; with `speaks` this connection speaks for the node from now on."""
        if speaks:
            voice = self.ingest.voices.setdefault(hello.node, Voice(self))
            if voice.boot != hello.boot:
                voice.boot, voice.first_t = hello.boot, math.inf
            voice.connection, voice.silent_s = self, max(SILENT_S, 3 * hello.interval_s)
        try:
            enrolled = await self.ingest.threads.database(enrol, hello, speaks)
        except DatabaseFault as error:
            logger.error("A hello of %s could not be written: %s", hello.node, error)
            raise WireError("busy", "the database does not take the hello; say it again later") from error
        self.node = enrolled.node
        self.ingest.ledger.gone.discard(self.node)
        if speaks:
            self.ingest.ring.enrol(enrolled.node, enrolled.gpus)
        if enrolled.is_new_boot:
            self.ingest.ledger.forget(hello.node)
            logger.info("%s says hello: %d GPUs, agent %s", hello.node, len(hello.gpus), clean(hello.agent_version, 40))
        return enrolled

    def _listen(self, session: Session, t: float) -> bool:
        """Learn who speaks for the node from a batch's time; True when it should be this connection, and is not yet."""
        voice = self.ingest.voices.get(session.node_name)
        if voice is None:
            return True
        if voice.connection is self and voice.boot == session.boot:
            voice.first_t = min(voice.first_t, t)
            voice.newest_t = max(voice.newest_t, t)
            return False
        if t <= voice.newest_t:
            return False  # a backlog
        other = voice.connection
        if other is None or other is self or voice.boot == session.boot or self.heard_at - other.heard_at > voice.silent_s:
            return True
        if t > voice.first_t + OVERLAP_S and not self._conflict_noted:
            self._conflict_noted = True
            detail = f"boots {voice.boot} and {session.boot} both speak for it: two agents share one token"
            self.ingest.ledger.refuse(session.node_name, "conflict", detail)
        return False

    async def _refuse(self, error: WireError, decoded: Hello | Batch | Event | None, frame: bytes | str) -> None:
        self.ingest.ledger.refuse(self.credential.node_name, error.code, error.detail)
        kind = type(decoded).__name__.lower() if decoded is not None else calls_itself(frame)
        of_event = kind == "event"
        seq = error.seq if error.seq is not None and 0 <= error.seq < MAX_SEQ and kind in ("batch", "event") else None
        await self.outbox.send(Error(code=error.code, detail=error.detail[:300], seq=None if of_event else seq))
        if seq is not None and not isinstance(decoded, Hello):
            boot = clean(decoded.boot, 64) if decoded is not None else next(reversed(self._sessions), ("", ""))[0]
            refused = [Refused(seq, error.code)]
            if of_event:
                self.outbox.ack(boot, events_refused=refused)  # an Error's seq is a batch's: events need this for every code
            elif error.code not in NOT_FOR_GOOD:
                self.outbox.ack(boot, refused=refused)
        self._refused_in_a_row += 1
        if self._refused_in_a_row > PATIENCE:
            await asyncio.sleep(min(1.0, 0.02 * (self._refused_in_a_row - PATIENCE)))

    def end(self) -> None:
        """The peer is gone: the node has no connection, unless another one took over."""
        self.outbox.is_closed = True
        voice = self.ingest.voices.get(self.credential.node_name)
        if voice is not None and voice.connection is self:
            voice.connection = None
            if self.node:
                self.ingest.ledger.gone.add(self.node)


def _collect_less_often() -> None:
    """Let the garbage collector look after many more allocations than it does by itself.

    Every batch is some sixty lists that live for a second and go by their reference counts. With Python's usual
    threshold of 700 the collector walked all of them again and again: half of this process's time at 4,000 GPUs.
    """
    gc.collect()
    gc.freeze()  # what was imported stays for good
    gc.set_threshold(100_000, 20, 20)


_ingest: Ingest | None = None


async def agent_socket(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Serve one agent, from its handshake to its end."""
    await receive()  # websocket.connect
    ingest = _ingest
    if ingest is None:
        logger.error("No lifespan: this server does not run startup, so agents cannot be served. Use uvicorn.")
        await send({"type": "websocket.close", "code": CLOSE_RESTART})
        return
    try:
        credential = await ingest.tokens.of(scope)
    except DatabaseFault as error:
        logger.error("A token could not be looked up: %s", error)
        await send({"type": "websocket.close", "code": CLOSE_RESTART})
        return
    if credential is None:
        ingest.ledger.stranger(str((scope.get("client") or ("?",))[0]))
        await send({"type": "websocket.close", "code": CLOSE_POLICY})  # before accept: HTTP 403
        return
    await send({"type": "websocket.accept"})
    ingest.ledger.used.add(credential.token)
    if ingest.by_token[credential.token] >= MAX_CONNECTIONS:
        ingest.ledger.refuse(credential.node_name, "busy", f"more than {MAX_CONNECTIONS} connections with one token")
        await send({"type": "websocket.close", "code": CLOSE_LATER, "reason": "too many connections with this token"})
        return
    connection = Connection(ingest, credential, Outbox(send))
    ingest.connections.add(connection)
    ingest.by_token[credential.token] += 1
    try:
        await connection.run(receive)
    finally:
        ingest.connections.discard(connection)
        ingest.by_token[credential.token] -= 1
        connection.end()


async def lifespan(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """Start the writer with the server, and let it store what it holds before the server ends.

    uvicorn closes the sockets first, so what is stored last is acked to nobody; agents send it again, which changes nothing.
    """
    global _ingest
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                _ingest = Ingest()
                _ingest.start()
                _collect_less_often()
            except Exception as error:
                logger.exception("Ingest cannot start")
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        else:
            if _ingest is not None:
                await _ingest.stop()
                _ingest = None
            await send({"type": "lifespan.shutdown.complete"})
            return
