"""One agent's connection: its hellos, its batches and events, and whether it speaks for its node.

An agent may hold several connections, and say several hellos on one: the backlog of an earlier boot travels under
that boot's hello. One connection *speaks for the node*: its hello is what the inventory shows. That is the first
one, and after it whoever sends newer batches than it did, once it is gone, silent for SILENT_S, or of the same boot.
Newer batches of another boot while it still speaks are two agents with one token: both are stored (the store keeps
one row for each GPU and second), and it is counted and logged as `conflict`.

Where several processes take agents in, the process whose hello is in the node's row has it: another one that hears of an
earlier boot's backlog leaves it there, and gives way when the node has moved.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from django.db import Error as DatabaseFault
from msgspec import structs

from fleet.ingest.accept import MAX_SEQ, Session, calls_itself, check_batch, check_event, check_hello, clean, weight
from fleet.ingest.auth import Credential
from fleet.ingest.columns import Accepted
from fleet.ingest.events import Arrived
from fleet.ingest.outbox import Outbox
from fleet.ingest.patience import OF_A_FULL_QUEUE, Patience
from fleet.ingest.roster import Enrolled, enrol
from fleet.ingest.skew import Skew
from fleet.ingest.times import clock_off
from fleet.ingest.voice import SILENT_S, Voice
from fleet.ingest.whereabouts import Elsewhere
from fleet.ingest.writer import QueueFullError
from fleet.store.kept import kept
from fleet.store.series import store
from wire.codec import WireError, decode_from_agent
from wire.messages import Batch, Error, Event, Hello, Refused, Welcome

if TYPE_CHECKING:
    from fleet.ingest.service import Ingest

Receive = Callable[[], Awaitable[dict[str, Any]]]

HELLO_WITHIN_S: Final = 15.0
OVERLAP_S: Final = 2.0
MAX_SESSIONS: Final = 16
MAX_HELLOS_A_MINUTE: Final = 30
NOT_FOR_GOOD: Final = ("busy", "need_hello")
"""Refusals after which the agent keeps the batch: they never appear in Ack.refused."""
CLOSE_TIMEOUT: Final = 4408

logger = logging.getLogger(__name__)


class Connection:
    """One agent's socket."""

    def __init__(self, ingest: "Ingest", credential: Credential, outbox: Outbox) -> None:
        self.ingest = ingest
        self.credential = credential
        self.outbox = outbox
        self.node = 0
        self.heard_at = time.time()
        self._sessions: dict[tuple[str, str], Session] = {}
        self._hellos: dict[tuple[str, str], Hello] = {}
        self._patience = Patience()
        self._conflict_noted = False
        self._gave_way: Elsewhere | None = None
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
                await self._follow(session, decoded)
            elif isinstance(decoded, Event):
                self._event(decoded)
            else:
                await self._hello(decoded)
        except WireError as error:
            await self._refuse(error, decoded, frame)
        else:
            if isinstance(decoded, Hello):  # said again it changes nothing, and is answered all the same
                await asyncio.sleep(self._patience.use(time.monotonic()))

    def _batch(self, batch: Batch, size: int) -> Session:
        session = self._session(batch.node, batch.boot, batch.seq, batch.schema)
        is_kept = kept(store())
        try:
            check_batch(batch, session, self.heard_at, is_kept)
        except WireError as error:
            off_s = clock_off(batch.t, session.skew, self.heard_at, is_kept)
            if error.code == "bad_time" and off_s is not None:
                self.ingest.ledger.clock(session.node, off_s)  # nothing of it is stored, so say why
            raise
        self.ingest.changes.take(session, batch)
        self.ingest.writer.put(Accepted(session, batch, self.heard_at, size + weight(batch)))
        return session

    async def _follow(self, session: Session, batch: Batch) -> None:
        """Learn from a batch that was taken who speaks for the node and how its clock goes."""
        takes_over = self._listen(session, self._ours(session, batch))
        voice = self.ingest.voices.get(session.node_name)
        if takes_over or voice is None or (voice.connection is self and voice.boot == session.boot):
            session.skew.learn(batch.t, self.heard_at)  # an earlier boot's backlog says nothing of the clock
        if takes_over:
            await self._enrol(self._hellos[session.boot, session.layout.schema], speaks=True)
            self._listen(session, self._ours(session, batch))
            voice = self.ingest.voices.get(session.node_name)
        if voice is None or voice.connection is not self or voice.boot != session.boot:
            return
        step = voice.follow(batch.seq, batch.t)
        if step.set_back:
            session.skew.set_back()
        if step.again:
            detail = "its clock was set back: of a second that it lived through twice the later sample is kept"
            self.ingest.ledger.refuse(session.node_name, "clock_set_back", detail)
        if session.skew.asks(self.heard_at):
            await self.outbox.send(Error(code="need_hello", detail="say again what time it is: batches come late"))

    def _ours(self, session: Session, batch: Batch) -> float:
        """The batch's time on the server's clock; nothing is newer than its arrival."""
        return min(batch.t - (session.skew.value or 0.0), self.heard_at)

    def _event(self, event: Event) -> None:
        session = self._session(event.node, event.boot, event.seq, None)
        check_event(event)
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
            enrolled = await self._enrol(hello, speaks, yields=voice is None)
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
            )
        await self.outbox.send(Welcome(schema=layout.schema, holds=True))

    async def _enrol(self, hello: Hello, speaks: bool, yields: bool = False) -> Enrolled:
        """The rows of a hello; with `speaks` this connection speaks for the node from now on, unless it `yields` to another process."""
        voice = self.ingest.voices.setdefault(hello.node, Voice(self)) if speaks else Voice(None)
        if speaks:
            voice.begins(hello.boot)
            voice.connection, voice.silent_s = self, max(SILENT_S, 3 * hello.interval_s)
            voice.is_elsewhere = False
        try:
            enrolled = await self.ingest.threads.database(enrol, hello, speaks, self.ingest.process, yields)
        except DatabaseFault as error:
            logger.error("A hello of %s could not be written: %s", hello.node, error)
            raise WireError("busy", "the database does not take the hello; say it again later") from error
        self.node = enrolled.node
        if enrolled.elsewhere is not None:
            voice.node = enrolled.node
            voice.is_at(enrolled.elsewhere)
            return enrolled
        self.ingest.ledger.gone.discard(self.node)
        if enrolled.has_moved:
            self.ingest.forget(enrolled.node, enrolled.gpus)
        if speaks:
            self._gave_way = None
            voice.node = enrolled.node
            self.ingest.ring.enrol(enrolled.node, enrolled.gpus)
            self.ingest.commands.look()
        if enrolled.is_new_boot:
            self.ingest.ledger.forget(hello.node)
            logger.info("%s says hello: %d GPUs, agent %s", hello.node, len(hello.gpus), clean(hello.agent_version, 40))
        return enrolled

    def _listen(self, session: Session, t: float) -> bool:
        """Learn who speaks for the node from a batch's time on our clock; True when it should be this connection, and is not yet."""
        voice = self.ingest.voices.get(session.node_name)
        if voice is None:
            return True
        if voice.connection is self and voice.boot == session.boot:
            voice.first_t = min(voice.first_t, t)
            voice.newest_t = max(voice.newest_t, t)
            return False
        other = voice.connection
        if t <= voice.newest_t:  # a backlog, but for another agent's that ticks with this one
            live = other not in (None, self) and t > max(voice.first_t + OVERLAP_S, voice.newest_t - OVERLAP_S)
            if live and voice.boot != session.boot:
                self._conflict(voice.boot, session.boot)
            return False
        if voice.is_elsewhere and self._gave_way is not None:
            if self.heard_at > self._gave_way.since + OVERLAP_S:
                self._conflict(voice.boot, session.boot)
            return False
        if other is None or other is self or voice.boot == session.boot or self.heard_at - other.heard_at > voice.silent_s:
            return True
        if t > voice.first_t + OVERLAP_S:
            self._conflict(voice.boot, session.boot)
        return False

    def give_way(self, to: Elsewhere) -> None:
        """The node has come to another process. Who goes on speaking here is another agent with its token."""
        self._gave_way = to

    def _conflict(self, one: str, other: str) -> None:
        if not self._conflict_noted:
            self._conflict_noted = True
            detail = f"boots {one} and {other} both speak for it: two agents share one token"
            self.ingest.ledger.refuse(self.credential.node_name, "conflict", detail)

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
        much = OF_A_FULL_QUEUE if isinstance(error, QueueFullError) else 1.0
        await asyncio.sleep(self._patience.use(time.monotonic(), much))

    def end(self) -> None:
        """The peer is gone: the node has no connection, unless another one took over."""
        if self.outbox.was_cut_off:
            logger.warning("%s does not take what it is sent; its connection was cut off", self.credential.node_name)
        self.outbox.is_closed = True
        voice = self.ingest.voices.get(self.credential.node_name)
        if voice is not None and voice.connection is self:
            voice.connection, voice.ended_at = None, time.time()
            if self.node:
                self.ingest.ledger.gone.add(self.node)
