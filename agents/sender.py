"""One node's WebSocket to the server: hello, batches and events, acks, and a new try when it breaks.

New batches go first, the backlog in the spare rate. A record leaves the spool when the server stored it, or refused it
for good; a `busy` one stays. What earlier runs of the agent left behind follows on the same connection, under its own
hello: the first hello of a connection names the boot that runs now, a later one only lets a backlog be read.
"""

import asyncio
import logging
import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from msgspec import structs
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from agents.clock import Clock
from agents.config import ConfigError
from agents.spool import BATCH, EVENT, Group, Range, Spool
from wire.codec import MAX_FRAME_BYTES, WireError, decode_from_agent, decode_from_server, encode_text
from wire.messages import Ack, Command, Error, Refused, Welcome

log = logging.getLogger(__name__)

WELCOME_S: Final = 10.0
BACKLOG_PER_S: Final = 25
"""How many old batches a second travel beside the live one."""
IN_FLIGHT: Final = 256
"""Old batches wait while so many are not acked."""
UNANSWERED_S: Final = 120.0
"""A record that was neither stored nor refused for so long is sent again; the server keeps one of the two."""
BACKOFF_FIRST_S: Final = 0.5
BACKOFF_LAST_S: Final = 60.0
REFUSED_BACKOFF_S: Final = 120.0
HELLOS: Final = 10
"""Hellos over one connection; servers remember sixteen."""
HELLO_AGAIN_S: Final = 1.0
"""A hello that is forgotten sooner than this is not worth saying again on this connection."""
_FORGOTTEN: Final = ("need_hello", "wrong_boot")
_OF_A_HELLO: Final = ("bad_hello", "unknown_metric", "wrong_node")
_CLOSE_TOO_BIG: Final = 1009
_CLOSE_REVOKED: Final = 4403


class _ServerRefusedError(Exception):
    """The server will not have this node; trying again soon makes no sense."""


class Sender:
    """Delivers one node's spool. `run` goes on until it is cancelled."""

    def __init__(self, url: str, token: Callable[[], str], spool: Spool, clock: Clock, as_text: bool = False) -> None:
        self.refused: Counter[str] = Counter()
        """Records that were given up, by the server's code."""
        self.spool = spool
        self.clock = clock
        self._url = url
        self._token = token
        self._as_text = as_text
        self._session: _Session | None = None
        self._begun = asyncio.Event()
        self._said = ""
        self._lost = 0
        self._stopping = False

    def stop(self) -> None:
        """End the connection in order; `run` returns, unless it waits for its next try."""
        self._stopping = True
        if self._session is not None:
            self._session.stop()

    def begin(self) -> None:
        """The spool has a (new) hello: connect, or connect anew."""
        self._begun.set()
        if self._session is not None:
            self._session.stop()

    def offer(self, kind: int, seq: int) -> None:
        """A record was put into the spool: send it now if there is a connection."""
        if self._session is not None:
            self._session.offer(kind, seq)

    def lost_some(self) -> bool:
        """True once after records were lost on the way: what they told of absences must be told again."""
        lost = self.spool.dropped + self.refused.total()
        changed, self._lost = lost != self._lost, lost
        return changed

    async def run(self) -> None:
        """Connect, deliver, connect again."""
        await self._begun.wait()
        failures = 0
        while not self._stopping:
            began = self.clock.monotonic()
            group = self.spool.current
            refused = False
            try:
                await self._deliver(group)
            except _ServerRefusedError as error:
                refused = True
                self._say(f"The server refuses this node: {error}", logging.ERROR)
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError, WireError) as error:
                self._say(f"No connection to {self._url}: {_short(error)}", logging.WARNING)
            finally:
                self._session = None
            if self._stopping or group is not self.spool.current:
                failures = 0
                continue  # the end, or a new hello
            failures = 0 if self.clock.monotonic() - began > BACKOFF_LAST_S else failures + 1
            delay = REFUSED_BACKOFF_S if refused else min(BACKOFF_LAST_S, BACKOFF_FIRST_S * 2**failures)
            await self.clock.sleep(delay * random.uniform(0.5, 1))  # noqa: S311 - jitter

    async def _deliver(self, group: Group) -> None:
        """One connection; returns when it is stopped."""
        try:
            headers = {"Authorization": f"Bearer {self._token()}"}
            connection = connect(
                self._url, additional_headers=headers, compression=None, open_timeout=WELCOME_S, close_timeout=1, proxy=None
            )
            async with connection as socket:
                self._session = _Session(self, socket, group)
                await self._session.run()
        except InvalidStatus as error:
            status = error.response.status_code
            if status in (401, 403):
                raise _ServerRefusedError(
                    f"HTTP {status}: the token of node {group.hello.node!r} is unknown, revoked or another node's; "
                    "issue one on the server and put it into the token file"
                ) from None
            raise
        except (ConfigError, InvalidURI) as error:
            raise _ServerRefusedError(str(error)) from None
        except ConnectionClosed as error:
            if error.rcvd is not None and error.rcvd.code == _CLOSE_REVOKED:
                raise _ServerRefusedError(_plain(error.rcvd.reason)) from None
            raise

    def welcomed(self) -> None:
        """The server took the hello."""
        self._say(f"Connected to {self._url}.", logging.INFO)

    def _say(self, what: str, level: int) -> None:
        """Log a change of state, once."""
        if what != self._said:
            self._said = what
            log.log(level, "%s", what)

    def settle(self, group: Group, kind: int, ranges: list[Range]) -> None:
        """The server stored these."""
        self.spool.settle(group, kind, ranges)

    def refuse(self, group: Group, kind: int, seq: int, code: str) -> None:
        """The server, or its size limit, will never take this one."""
        if self.spool.settle(group, kind, [(seq, seq)]):
            self.refused[code] += 1
            if self.refused[code] == 1:
                log.warning("The server refused record %d (%s); it is dropped and counted.", seq, _plain(code))

    def frame(self, group: Group, kind: int, seq: int) -> bytes | str | None:
        """The frame to send; None when the record is gone."""
        payload = self.spool.payload(group, kind, seq)
        if payload is None:
            return None
        return encode_text(decode_from_agent(payload)) if self._as_text else payload


class _Lane:
    """What is to be sent of one group."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.events: deque[int] = deque(group.pending(EVENT))
        self.fresh: deque[int] = deque()
        self.backlog: deque[int] = deque(group.pending(BATCH))
        self.in_flight: dict[tuple[int, int], float] = {}  # (kind, seq): when it was sent, oldest first
        self.is_welcome = False
        self.hello_at = float("-inf")


class _Session:
    """One connection."""

    def __init__(self, sender: Sender, socket: ClientConnection, group: Group) -> None:
        self._sender = sender
        self._socket = socket
        self._live = _Lane(group)
        self._earlier: _Lane | None = None
        self._asked: deque[_Lane] = deque()  # hellos that wait for their answer
        self._busy_until = 0.0
        self._wake = asyncio.Event()
        self._stopped = False
        self._say_again: set[_Lane] = set()
        self._hellos = 0

    def offer(self, kind: int, seq: int) -> None:
        """A new record of the live group."""
        (self._live.events if kind == EVENT else self._live.fresh).append(seq)
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
                self._drop_largest()
            raise
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _hello(self, lane: _Lane) -> None:
        lane.is_welcome = False
        lane.hello_at = self._sender.clock.monotonic()
        self._hellos += 1
        self._asked.append(lane)
        await self._socket.send(encode_text(structs.replace(lane.group.hello, t=self._sender.clock.now())))

    async def _write(self) -> None:
        patience = self._sender.clock.monotonic() + WELCOME_S
        while not self._live.is_welcome:
            if self._stopped:
                return
            if self._sender.clock.monotonic() >= patience:
                raise ConnectionError(f"the server did not answer the hello within {WELCOME_S:.0f} s")
            await self._sleep(1.0)
        self._sender.welcomed()
        allowance, at = 1.0, self._sender.clock.monotonic()
        while not self._stopped:
            self._wake.clear()
            now = self._sender.clock.monotonic()
            allowance, at = min(BACKLOG_PER_S, allowance + (now - at) * BACKLOG_PER_S), now
            self._again(self._live, now)
            if self._live.is_welcome:
                await self._send_now(self._live)
                allowance = await self._send_backlog(self._live, allowance, now)
            if not self._live.backlog:
                allowance = await self._send_earlier(allowance, now)
            if not (self._wake.is_set() or self._live.events or self._live.fresh) or not self._live.is_welcome:
                await self._sleep(0.2 if self._live.backlog or self._earlier else 5.0)

    async def _sleep(self, seconds: float) -> None:
        """Until something happens, or so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def _send_now(self, lane: _Lane) -> None:
        while lane.events:
            await self._send(lane, EVENT, lane.events.popleft())
        while lane.fresh:
            await self._send(lane, BATCH, lane.fresh.popleft())

    async def _send_backlog(self, lane: _Lane, allowance: float, now: float) -> float:
        while lane.backlog and allowance >= 1 and len(lane.in_flight) < IN_FLIGHT and now >= self._busy_until:
            allowance -= 1
            await self._send(lane, BATCH, lane.backlog.popleft())
        return allowance

    async def _send_earlier(self, allowance: float, now: float) -> float:
        """A share of what earlier hellos left behind, one hello after the other."""
        lane = self._earlier
        if lane is not None and lane.group.is_empty:
            lane = self._earlier = None
        if lane is None:
            waiting = self._sender.spool.earlier()
            if waiting and self._hellos >= HELLOS:
                self._stopped = True  # a server need not remember more: go on over a new connection
            elif waiting and now >= self._busy_until:
                self._earlier = _Lane(waiting[0])
                await self._hello(self._earlier)
            return allowance
        self._again(lane, now)
        if not lane.is_welcome:
            return allowance
        await self._send_now(lane)
        return await self._send_backlog(lane, allowance, now)

    async def _send(self, lane: _Lane, kind: int, seq: int) -> None:
        if (kind, seq) in lane.in_flight:
            return
        frame = self._sender.frame(lane.group, kind, seq)
        if frame is None:
            return
        if len(frame) > MAX_FRAME_BYTES:
            self._sender.refuse(lane.group, kind, seq, "too_large")
            return
        lane.in_flight[kind, seq] = self._sender.clock.monotonic()
        await self._socket.send(frame)

    async def _read(self) -> None:
        async for frame in self._socket:
            message = decode_from_server(frame)
            if isinstance(message, Ack):
                self._ack(message)
            elif isinstance(message, Error):
                await self._error(message)
            elif isinstance(message, Welcome):
                if self._asked:
                    self._asked.popleft().is_welcome = True
            elif isinstance(message, Command):
                log.info("The server's command %s is not allowed here.", _plain(message.name))
            if self._say_again:
                await self._hello_again()
            self._wake.set()
        raise ConnectionError("the server ended the connection")

    async def _hello_again(self) -> None:
        """The server forgot a hello: say it again, once for all the batches that it refused meanwhile."""
        lanes, self._say_again = self._say_again, set()
        for lane in lanes & set(self._lanes()) - set(self._asked):
            if self._sender.clock.monotonic() - lane.hello_at >= HELLO_AGAIN_S:
                await self._hello(lane)
            else:
                lane.is_welcome = False  # it was just said: what was refused waits for a new connection's hello
                self._stopped = True

    def _lanes(self) -> list[_Lane]:
        return [self._live] if self._earlier is None else [self._live, self._earlier]

    def _ack(self, ack: Ack) -> None:
        for lane in self._lanes():
            if lane.group.hello.boot != ack.boot:
                continue
            for kind, stored, refused in ((BATCH, ack.stored, ack.refused), (EVENT, ack.events, ack.events_refused)):
                if stored:
                    self._sender.settle(lane.group, kind, stored)
                for one in refused:
                    self._refused(lane, kind, one)
                if stored or refused:
                    places = lane.group.places[kind]
                    for key in [key for key in lane.in_flight if key[0] == kind and key[1] not in places]:
                        del lane.in_flight[key]

    def _refused(self, lane: _Lane, kind: int, one: Refused) -> None:
        if one.code == "busy":
            self._later(lane, kind, one.seq)
        elif one.code in _FORGOTTEN:
            self._return(lane, kind, one.seq)
            self._say_again.add(lane)
        else:
            self._sender.refuse(lane.group, kind, one.seq, one.code)

    async def _error(self, error: Error) -> None:
        """Error frames explain; what they refuse for good is settled by the ack that names it too."""
        if error.code in _FORGOTTEN:
            for lane in self._lanes():
                if error.seq is not None:
                    self._return(lane, BATCH, error.seq)
                self._say_again.add(lane)
        elif error.code == "busy":
            self._busy_until = self._sender.clock.monotonic() + random.uniform(1, 3)  # noqa: S311 - jitter
            for lane in self._lanes():
                if error.seq is not None:
                    self._later(lane, BATCH, error.seq)
            if error.seq is None and self._asked and self._asked.popleft() is self._live:
                raise ConnectionError(f"the server is busy: {_plain(error.detail)}")
            if error.seq is None and self._earlier is not None and not self._earlier.is_welcome:
                self._earlier = None  # its hello was not taken: begin with it again later
        elif error.seq is None and error.code in _OF_A_HELLO and self._asked:
            lane = self._asked.popleft()
            if lane is self._live:
                raise _ServerRefusedError(f"{_plain(error.code)}: {_plain(error.detail)}")
            log.warning("Records of an earlier run can never be stored (%s: %s).", _plain(error.code), _plain(error.detail))
            for kind in (BATCH, EVENT):
                for seq in lane.group.pending(kind):
                    self._sender.refuse(lane.group, kind, seq, error.code)
        else:
            log.info("The server refused a frame (%s): %s", _plain(error.code), _plain(error.detail))

    def _return(self, lane: _Lane, kind: int, seq: int) -> None:
        """Send it again."""
        if lane.in_flight.pop((kind, seq), None) is not None:
            (lane.events if kind == EVENT else lane.backlog).append(seq)

    def _later(self, lane: _Lane, kind: int, seq: int) -> None:
        """The server is busy: send it again after a while, and no backlog until then."""
        self._busy_until = self._sender.clock.monotonic() + random.uniform(1, 3)  # noqa: S311 - jitter
        if lane.in_flight.pop((kind, seq), None) is None:
            return
        if kind == BATCH:
            lane.backlog.appendleft(seq)
        else:
            asyncio.get_running_loop().call_later(1.0, self._offer_again, lane, seq)

    def _offer_again(self, lane: _Lane, seq: int) -> None:
        lane.events.append(seq)
        self._wake.set()

    def _again(self, lane: _Lane, now: float) -> None:
        for key, at in list(lane.in_flight.items()):
            if now - at < UNANSWERED_S:
                break  # in the order of sending
            self._return(lane, *key)

    def _drop_largest(self) -> None:
        """The server closed over the size of a frame: it can only be the largest of those under way."""
        sizes = [
            (len(self._sender.frame(lane.group, kind, seq) or b""), lane.group.hello.boot, kind, seq, lane)
            for lane in self._lanes()
            for kind, seq in lane.in_flight
        ]
        if sizes:
            _, _, kind, seq, lane = max(sizes, key=lambda one: one[:4])
            self._sender.refuse(lane.group, kind, seq, "too_large")


def _short(error: BaseException) -> str:
    return _plain((str(error).splitlines() or [""])[0]) or type(error).__name__


def _plain(text: str) -> str:
    """What the server said, fit for a log: no control or format characters, 200 at most."""
    return "".join(character for character in text[:400] if character.isprintable())[:200]
