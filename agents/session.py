"""One connection to the server: its hellos, what is sent in which order, and what the answers settle.

New batches go first, the backlog in the spare rate. A record leaves the spool when the server stored it, or refused it
for good; a `busy` one stays. What earlier runs of the agent left behind follows on the same connection, under its own
hello: the first hello of a connection names the boot that runs now, a later one only lets a backlog be read.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import structs
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from agents.clock import Clock
from agents.lane import Lane
from agents.outbox import Outbox, plain
from agents.segment import BATCH, EVENT, Group
from wire.codec import WireError, decode_from_server, encode_text
from wire.messages import Ack, Command, Error, FromServer, Refused, Welcome

log = logging.getLogger(__name__)

WELCOME_S: Final = 10.0
BACKLOG_PER_S: Final = 25
"""How many old batches a second travel beside the live one."""
HELLOS: Final = 10
"""Hellos over one connection; servers remember sixteen."""
BAD_FRAMES: Final = 100  # that are no message; a server that sent so many is left, and tried again
HELLO_AGAIN_S: Final = 1.0
"""A hello that is forgotten sooner than this is not worth saying again on this connection."""
_FORGOTTEN: Final = ("need_hello", "wrong_boot")
_OF_A_HELLO: Final = ("bad_hello", "unknown_metric", "wrong_node")
_CLOSE_TOO_BIG: Final = 1009


class ServerRefusedError(Exception):
    """The server will not have this node; trying again soon makes no sense."""


class Session:
    """One connection; `on_welcome` is called when the server took the first hello, `on_command` for each of its commands."""

    def __init__(
        self,
        outbox: Outbox,
        clock: Clock,
        socket: ClientConnection,
        group: Group,
        on_welcome: Callable[[], None],
        on_command: Callable[[Command], None] | None = None,
    ) -> None:
        self._outbox = outbox
        self._clock = clock
        self._on_welcome = on_welcome
        self._on_command = on_command
        self._socket = socket
        self._live = Lane(group)
        self._earlier: Lane | None = None
        self._asked: deque[Lane] = deque()  # hellos that wait for their answer
        self._busy_until = 0.0
        self._wake = asyncio.Event()
        self._stopped = False
        self._say_again: set[Lane] = set()
        self._hellos = 0
        self._bad_frames = 0
        self.holds = False
        """True once the server said that GPU columns may be empty (wire/messages.py)."""

    @property
    def is_welcome(self) -> bool:
        """True once the server took the first hello."""
        return self._live.is_welcome

    def offer(self, kind: int, seq: int) -> None:
        """A new record of the live group."""
        self._live.offer(kind, seq)
        self._wake.set()

    def stop(self) -> None:
        """End the session in order."""
        self._stopped = True
        self._wake.set()

    async def run(self) -> None:
        """Say hello, then send and take acks until stopped; ConnectionClosed when the server goes."""
        await self._hello(self._live)
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        try:
            await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            for task in (reader, writer):
                if task.done():
                    task.result()
        except ConnectionClosed as error:
            if error.rcvd is not None and error.rcvd.code == _CLOSE_TOO_BIG:
                self._outbox.refuse_largest((lane.group, *key) for lane in self._lanes() for key in lane.in_flight)
            raise
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _hello(self, lane: Lane) -> None:
        lane.is_welcome = False
        lane.hello_at = self._clock.monotonic()
        self._hellos += 1
        self._asked.append(lane)
        await self._socket.send(encode_text(structs.replace(lane.group.hello, t=self._clock.now())))

    async def _write(self) -> None:
        patience = self._clock.monotonic() + WELCOME_S
        while not self._live.is_welcome:
            if self._stopped:
                return
            if self._clock.monotonic() >= patience:
                raise ConnectionError(f"the server did not answer the hello within {WELCOME_S:.0f} s")
            await self._sleep(1.0)
        self._on_welcome()
        allowance, at = 1.0, self._clock.monotonic()
        while not self._stopped:
            self._wake.clear()
            now = self._clock.monotonic()
            allowance, at = min(BACKLOG_PER_S, allowance + (now - at) * BACKLOG_PER_S), now
            self._live.send_again(now)
            if self._live.is_welcome:
                await self._send_now(self._live)
                allowance = await self._send_backlog(self._live, allowance, now)
            if not self._live.backlog:
                allowance = await self._send_earlier(allowance, now)
            if not (self._wake.is_set() or self._live.events or self._live.fresh) or not self._live.is_welcome:
                await self._sleep(0.2 if self._live.backlog or self._earlier else 5.0)

    async def _sleep(self, seconds: float) -> None:
        """Until something happens, or so long."""
        timer = asyncio.get_running_loop().call_later(seconds, self._wake.set)  # wait_for would make a task each time
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        self._wake.clear()

    async def _send_now(self, lane: Lane) -> None:
        for kind, seq in lane.take_new():
            await self._send(lane, kind, seq)

    async def _send_backlog(self, lane: Lane, allowance: float, now: float) -> float:
        while lane.backlog and allowance >= 1 and not lane.is_full and now >= self._busy_until:
            allowance -= 1
            await self._send(lane, BATCH, lane.backlog.popleft())
        return allowance

    async def _send_earlier(self, allowance: float, now: float) -> float:
        """A share of what earlier hellos left behind, one hello after the other."""
        if self._earlier is not None and self._earlier.group.is_empty:
            self._earlier = None
        if (lane := self._earlier) is None:
            waiting = self._outbox.spool.earlier()
            if waiting and self._hellos >= HELLOS:
                self._stopped = True  # a server need not remember more: go on over a new connection
            elif waiting and now >= self._busy_until:
                self._earlier = Lane(waiting[0])
                await self._hello(self._earlier)
            return allowance
        lane.send_again(now)
        if not lane.is_welcome:
            return allowance
        await self._send_now(lane)
        return await self._send_backlog(lane, allowance, now)

    async def _send(self, lane: Lane, kind: int, seq: int) -> None:
        if (kind, seq) in lane.in_flight:
            return
        frame = self._outbox.frame(lane.group, kind, seq)
        if frame is None:
            if seq in lane.group.places[kind]:
                lane.unread[kind, seq] = self._clock.monotonic()  # the others go on meanwhile
            return
        lane.in_flight[kind, seq] = self._clock.monotonic()
        await self._socket.send(frame)

    async def _read(self) -> None:
        async for frame in self._socket:
            message = self._message(frame)
            if isinstance(message, Ack):
                self._ack(message)
            elif isinstance(message, Error):
                await self._error(message)
            elif isinstance(message, Welcome):
                self.holds = message.holds
                if self._asked:
                    self._asked.popleft().is_welcome = True
            elif isinstance(message, Command):
                if self._on_command is None:
                    log.info("The server's command %s is not allowed here and was not obeyed.", plain(message.name))
                else:
                    self._on_command(message)
            if self._say_again:
                await self._hello_again()
            if not isinstance(message, Ack) or self._stopped or self._has_work:
                self._wake.set()  # an ack alone gives the writer nothing to do
        raise ConnectionError("the server ended the connection")

    def _message(self, frame: bytes | str) -> FromServer | None:
        """What the server says; a frame that is no message is None and costs itself alone, many cost the connection."""
        try:
            return decode_from_server(frame)
        except WireError as error:
            self._bad_frames += 1
            if self._bad_frames >= BAD_FRAMES:
                raise
            if self._bad_frames == 1:
                log.warning("The server sent a frame that is no message, which is passed over: %s", plain(str(error)))
            return None

    @property
    def _has_work(self) -> bool:
        return self._live.has_any or self._earlier is not None or not self._live.is_welcome

    async def _hello_again(self) -> None:
        """The server forgot a hello: say it again, once for all the batches that it refused meanwhile."""
        lanes, self._say_again = self._say_again, set()
        for lane in lanes & set(self._lanes()) - set(self._asked):
            if self._clock.monotonic() - lane.hello_at >= HELLO_AGAIN_S:
                await self._hello(lane)
            else:
                lane.is_welcome = False  # it was just said: what was refused waits for a new connection's hello
                self._stopped = True

    def _lanes(self) -> list[Lane]:
        return [self._live] if self._earlier is None else [self._live, self._earlier]

    def _ack(self, ack: Ack) -> None:
        for lane in self._lanes():
            if lane.group.hello.boot != ack.boot:
                continue
            for kind, stored, refused in ((BATCH, ack.stored, ack.refused), (EVENT, ack.events, ack.events_refused)):
                if stored:
                    self._outbox.settle(lane.group, kind, stored)
                for one in refused:
                    self._refused(lane, kind, one)
                if stored or refused:
                    lane.forget_settled(kind)

    def _refused(self, lane: Lane, kind: int, one: Refused) -> None:
        if one.code == "busy":
            self._later(lane, kind, one.seq)
        elif one.code in _FORGOTTEN:
            lane.put_back(kind, one.seq)
            self._say_again.add(lane)
        else:
            self._outbox.refuse(lane.group, kind, one.seq, one.code)

    async def _error(self, error: Error) -> None:
        """Error frames explain; what they refuse for good is settled by the ack that names it too."""
        if error.code in _FORGOTTEN:
            for lane in self._lanes():
                if error.seq is not None:
                    lane.put_back(BATCH, error.seq)
                self._say_again.add(lane)
        elif error.code == "busy":
            self._busy_until = self._clock.monotonic() + random.uniform(1, 3)  # noqa: S311 - jitter
            for lane in self._lanes():
                if error.seq is not None:
                    self._later(lane, BATCH, error.seq)
            if error.seq is None and self._asked and self._asked.popleft() is self._live:
                raise ConnectionError(f"the server is busy: {plain(error.detail)}")
            if error.seq is None and self._earlier is not None and not self._earlier.is_welcome:
                self._earlier = None  # its hello was not taken: begin with it again later
        elif error.seq is None and error.code in _OF_A_HELLO and self._asked:
            lane = self._asked.popleft()
            if lane is self._live:
                raise ServerRefusedError(f"{plain(error.code)}: {plain(error.detail)}")
            log.warning(
                "The server can never store what an earlier run left (%s: %s); it is dropped and counted.",
                plain(error.code),
                plain(error.detail),
            )
            self._outbox.refuse_all(lane.group, error.code)
        else:
            log.info("The server refused a frame (%s): %s", plain(error.code), plain(error.detail))

    def _later(self, lane: Lane, kind: int, seq: int) -> None:
        """The server is busy: send it again after a while, and no backlog until then."""
        self._busy_until = self._clock.monotonic() + random.uniform(1, 3)  # noqa: S311 - jitter
        if lane.in_flight.pop((kind, seq), None) is None:
            return
        if kind == BATCH:
            lane.backlog.appendleft(seq)
        else:
            asyncio.get_running_loop().call_later(1.0, self._offer_again, lane, seq)

    def _offer_again(self, lane: Lane, seq: int) -> None:
        lane.events.append(seq)
        self._wake.set()
