"""The sender against a real WebSocket server that plays the contract's other side."""

import asyncio
import contextlib
import errno
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agents import read_back, session
from agents import sender as sending
from agents.clock import RealClock
from agents.segment import BATCH, EVENT, Group
from agents.sender import Sender
from agents.spool import Spool
from tests.agents.server import TOKEN, Server, error, odd_server, refuse, running, until
from wire.codec import encode, encode_text
from wire.messages import Ack, Batch, Command, Event, Hello, Processes, Refused


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests do not wait for real back-offs."""
    monkeypatch.setattr(sending, "BACKOFF_FIRST_S", 0.02)
    monkeypatch.setattr(sending, "BACKOFF_LAST_S", 0.2)
    monkeypatch.setattr(sending, "REFUSED_BACKOFF_S", 0.3)
    monkeypatch.setattr("random.uniform", lambda low, high: low * 0.1)


class Agent:
    """A spool and its sender, fed by hand."""

    def __init__(self, spool: Spool, url: str, token: str = TOKEN, boot: str = "b0", as_text: bool = False) -> None:
        self.spool = spool
        self.boot = boot
        self.sender = Sender(url, lambda: token, spool, RealClock(), as_text=as_text)
        self.seq = 0
        self.event_seq = 0
        self.hello(boot)

    def hello(self, boot: str) -> None:
        """Begin under a new hello."""
        self.boot, self.seq, self.event_seq = boot, 0, 0
        self.spool.begin(Hello(node="n", boot=boot, agent_version="1", schema="s"))
        self.sender.begin()

    def batch(self, padding: int = 0) -> None:
        """Make one batch."""
        processes = Processes(pid=[1], name=["x" * padding], user=[""]) if padding else Processes()
        batch = Batch(node="n", boot=self.boot, seq=self.seq, schema="s", t=1.8e9 + self.seq, processes=processes)
        self.spool.append(BATCH, self.seq, encode(batch))
        self.sender.offer(BATCH, self.seq)
        self.seq += 1

    def event(self) -> None:
        """Make one event."""
        event = Event(node="n", boot=self.boot, seq=self.event_seq, t=1.8e9, kind="xid", code=79)
        self.spool.append(EVENT, self.event_seq, encode(event))
        self.sender.offer(EVENT, self.event_seq)
        self.event_seq += 1


@contextlib.asynccontextmanager
async def agent(spool: Spool, url: str, **options: Any) -> AsyncIterator[Agent]:
    """A running agent."""
    made = Agent(spool, url, **options)
    task = asyncio.create_task(made.sender.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def seqs(server: Server) -> list[int]:
    """The batches that arrived, in order."""
    return [batch.seq for batch in server.batches]


async def test_hello_comes_first_and_acked_batches_leave_the_spool() -> None:
    """The plain case, in msgpack, with the token in the header."""
    async with running() as server, agent(Spool(), server.url) as one:
        one.batch()
        one.event()
        await until(lambda: one.spool.current.is_empty)

        assert isinstance(server.frames[0], str)
        assert isinstance(server.frames[1], bytes)
        assert (len(server.hellos), seqs(server), len(server.events)) == (1, [0], 1)
        assert not one.sender.refused
        assert server.hellos[0].t == pytest.approx(time.time(), abs=5)


async def test_debug_mode_speaks_json() -> None:
    """Text frames of the same Structs."""
    async with running() as server, agent(Spool(), server.url, as_text=True) as one:
        one.batch()
        await until(lambda: one.spool.current.is_empty)

        assert all(isinstance(frame, str) for frame in server.frames)


async def test_unacked_batches_are_sent_again_after_a_lost_connection() -> None:
    """What was sent but not acked counts as not delivered; what was acked is not repeated."""
    async with running() as server, agent(Spool(), server.url) as one:
        one.batch()
        await until(lambda: one.spool.current.is_empty)
        server.acks = False
        one.batch()
        one.event()
        await until(lambda: len(server.batches) == 2 and server.events)
        server.acks = True
        await server.drop()
        await until(lambda: one.spool.current.is_empty)

        assert seqs(server) == [0, 1, 1]
        assert [event.seq for event in server.events] == [0, 0]
        assert len(server.hellos) == 2


async def test_live_batches_go_before_the_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an outage the newest second is not held up by the hour before it."""
    monkeypatch.setattr(session, "BACKLOG_PER_S", 50)
    spool = Spool()
    async with running() as server, agent(spool, server.url) as one:
        for _ in range(100):
            one.batch()
        await until(lambda: len(server.batches) >= 3)
        one.batch()
        await until(lambda: 100 in seqs(server))

        assert len(server.batches) < 60
        await until(lambda: spool.current.is_empty)
        assert sorted(seqs(server)) == list(range(101))


async def test_refused_batches_are_dropped_and_counted_and_busy_ones_kept(caplog: pytest.LogCaptureFixture) -> None:
    """A refusal for good costs that batch alone, and of a time the log names the clock; `busy` costs time alone."""
    busy = {2}

    def answer(batch: Batch) -> Ack | None:
        if batch.seq == 1:
            return refuse(batch, "bad_time")
        if batch.seq in busy:
            busy.discard(batch.seq)
            return refuse(batch, "busy")
        return None

    async with running() as server, agent(Spool(), server.url) as one:
        server.on_batch = answer
        for _ in range(4):
            one.batch()
        await until(lambda: one.spool.current.is_empty)

        assert dict(one.sender.refused) == {"bad_time": 1}
        assert "This node's clock is too far ahead of the server's, too far behind it" in caplog.text
        assert sorted(seqs(server)) == [0, 1, 2, 2, 3]
        assert one.sender.lost_some()
        assert not one.sender.lost_some()


async def test_a_busy_error_frame_keeps_the_batch_too() -> None:
    """The server may say it as an error frame."""
    first = iter([True])
    async with running() as server, agent(Spool(), server.url) as one:
        server.on_batch = lambda batch: error("busy", batch.seq) if next(first, False) else None
        one.batch()
        await until(lambda: one.spool.current.is_empty)

        assert seqs(server) == [0, 0]
        assert not one.sender.refused


async def test_need_hello_is_answered_with_a_hello_and_the_batch_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that forgot the schema learns it on the same connection."""
    monkeypatch.setattr(session, "HELLO_AGAIN_S", 0.0)
    forgot = iter([True])
    async with running() as server, agent(Spool(), server.url) as one:
        server.on_batch = lambda batch: error("need_hello", batch.seq) if next(forgot, False) else None
        one.batch()
        await until(lambda: one.spool.current.is_empty)

        assert len(server.hellos) == 2
        assert server.connections == 1
        assert seqs(server) == [0, 0]


async def test_a_frame_over_the_limit_is_dropped_and_counted_before_it_is_sent() -> None:
    """The others are unharmed."""
    async with running() as server, agent(Spool(), server.url) as one:
        one.batch(padding=300_000)
        one.batch()
        await until(lambda: one.spool.current.is_empty)

        assert dict(one.sender.refused) == {"too_large": 1}
        assert seqs(server) == [1]


async def test_a_close_over_a_frames_size_costs_the_largest_one() -> None:
    """A server with a smaller limit closes the socket: that batch must not come again for ever."""
    async with running(max_size=10_000) as server, agent(Spool(), server.url) as one:
        one.batch(padding=20_000)
        one.batch()
        await until(lambda: one.spool.current.is_empty)

        assert dict(one.sender.refused) == {"too_large": 1}
        assert 1 in seqs(server)


async def test_a_wrong_token_is_said_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """HTTP 403 is no reason to fill the log, nor to give up: the token may be issued later."""
    with caplog.at_level(logging.INFO, "agents.sender"):
        async with running() as server, agent(Spool(), server.url, token="wrong") as one:
            one.batch()
            await asyncio.sleep(0.5)

            assert server.connections == 0
            assert not one.spool.current.is_empty
    refusals = [record for record in caplog.records if "HTTP 403" in record.getMessage()]
    assert len(refusals) == 1
    assert refusals[0].levelno == logging.ERROR


REDIRECTS = {
    "Location: ws://login.example:99999/?session=1": "login.example",
    "Location: https://login.example/": "login.example",
    "Location: /a\r\nLocation: /b": "several places at once",
    "Location: ws://[": "an address that is none",
    "Location: ws://a..b/": "a..b",
    f"Location: ws://{'a' * 70}.example/": f"{'a' * 70}.example",
    "Location: /elsewhere": "another path",
    "Location: ": "another path",
}


@pytest.mark.parametrize("where", REDIRECTS)
async def test_no_redirect_is_followed_and_each_is_said_once(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """A proxy's page for logging in is a refusal like others: a sentence with the place's host alone, and another try."""
    answer = f"HTTP/1.1 302 Found\r\n{where}\r\nContent-Length: 0\r\n\r\n".encode()
    with odd_server(answer) as odd:
        async with agent(Spool(), odd.url) as one:
            one.batch()
            await until(lambda: odd.connections >= 3)
            (record,) = [record for record in caplog.records if record.name == "agents.sender"]

    assert (
        f"The server refuses this node: HTTP 302: it redirects to {REDIRECTS[where]}, which is not followed"
        in record.getMessage()
    )
    assert record.levelno == logging.ERROR
    assert record.exc_info is None
    assert "session" not in record.getMessage()


async def test_nothing_is_told_to_the_server_that_a_redirect_names() -> None:
    """Neither hellos nor batches: it is not the one that was set."""
    async with running() as other:
        with odd_server(f"HTTP/1.1 307 No\r\nLocation: {other.url}\r\n\r\n".encode()) as odd:
            async with agent(Spool(), odd.url) as one:
                one.batch()
                await until(lambda: odd.connections >= 2)

                assert not one.sender.is_connected
        assert (other.connections, other.frames) == (0, [])


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00" * 100,
        b"HTTP/1.1 302 Found\r\n\r\n",
        b"HTTP/1.1 99999 Many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nUpgrade: other\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: \xff\r\n\r\n",
        b"HTTP/1.1 503 \xff\x1b\r\n\r\n",
        b"X: " + b"y" * 9000,
    ],
    ids=lambda answer: repr(answer[:60]),
)
async def test_no_answer_ends_the_sender(answer: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever listens there: one line, and another try."""
    with odd_server(answer) as odd:
        async with agent(Spool(), odd.url) as one:
            one.batch()
            await until(lambda: odd.connections >= 3)

            assert not one.spool.current.is_empty
    (record,) = [record for record in caplog.records if record.name == "agents.sender"]
    assert record.exc_info is None
    assert record.getMessage().isprintable()


async def test_a_defect_of_ours_is_logged_with_its_place_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """What waits is worth another try: the defect may be in one command, or in one record of many."""

    def on_command(command: Command) -> None:
        raise IndexError(command.name)

    async with running() as server, agent(Spool(), server.url) as one:
        one.sender.on_command = on_command
        for connections in (1, 2, 3):
            await until(partial(_is_connected, server, one, connections))
            if connections < 3:
                for socket in set(server.open):
                    await socket.send(encode(Command(name="release")))
        one.batch()
        await until(lambda: one.spool.current.is_empty)

    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert "defect" in record.getMessage()


def _is_connected(server: Server, one: Agent, connections: int) -> bool:
    return server.connections == connections and one.sender.is_connected


async def test_it_waits_for_a_server_that_is_not_there_yet(caplog: pytest.LogCaptureFixture) -> None:
    """One warning, then patience, then everything arrives."""
    async with running() as server:
        port = int(server.url.split(":")[2].split("/")[0])
    with caplog.at_level(logging.INFO, "agents.sender"):
        async with agent(Spool(), f"ws://127.0.0.1:{port}/ws/agent/") as one:
            one.batch()
            await asyncio.sleep(0.3)
            async with running(port) as late:
                await until(lambda: one.spool.current.is_empty)
                assert seqs(late) == [0]
    assert sum("Connect call failed" in record.getMessage() for record in caplog.records) == 1


async def test_an_earlier_run_is_delivered_under_its_own_hello_after_the_live_one(tmp_path: Path) -> None:
    """Boots keep their seqs; nothing acked comes twice, nothing unacked is forgotten."""
    async with running() as server:
        async with agent(Spool(tmp_path), server.url, boot="old") as one:
            one.batch()
            await until(lambda: one.spool.current.is_empty)
            server.acks = False
            one.batch()
            one.event()
            await until(lambda: len(server.batches) == 2)
            one.spool.close()
        server.acks = True
        async with agent(Spool(tmp_path), server.url, boot="new") as two:
            two.batch()
            await until(lambda: two.spool.current.is_empty and not two.spool.earlier())
            two.spool.close()

    assert [hello.boot for hello in server.hellos] == ["old", "new", "old"]
    assert [(batch.boot, batch.seq) for batch in server.batches[2:]] == [("new", 0), ("old", 1)]
    assert [(event.boot, event.seq) for event in server.events] == [("old", 0), ("old", 0)]
    assert list(tmp_path.glob("*.spool")) == []


async def test_an_earlier_run_that_the_server_cannot_take_is_given_up_and_counted(tmp_path: Path) -> None:
    """Its hello may name metrics that no longer exist; the live node is unharmed."""
    old = Spool(tmp_path)
    made = Agent(old, "ws://127.0.0.1:1/", boot="old")
    made.batch()
    old.close()
    async with running() as server, agent(Spool(tmp_path), server.url, boot="new") as one:
        server.on_hello = lambda hello: error("unknown_metric") if hello.boot == "old" else None
        one.batch()
        await until(lambda: one.spool.current.is_empty and not one.spool.earlier())

        assert dict(one.sender.refused) == {"unknown_metric": 1}
        assert [batch.boot for batch in server.batches] == ["new"]
        one.spool.close()


async def test_a_new_hello_makes_a_new_connection() -> None:
    """Columns follow the hello: what was made under the one before is delivered under it."""
    async with running() as server, agent(Spool(), server.url) as one:
        server.acks = False
        one.batch()
        await until(lambda: server.batches)
        server.acks = True
        one.hello("b1")
        one.batch()
        await until(lambda: one.spool.current.is_empty and not one.spool.earlier())

        assert [hello.boot for hello in server.hellos] == ["b0", "b1", "b0"]
        assert [(batch.boot, batch.seq) for batch in server.batches] == [("b0", 0), ("b1", 0), ("b0", 0)]


async def test_events_that_are_refused_leave_too() -> None:
    """Their seqs are their own: a refused event 0 leaves batch 0 alone."""
    async with running() as server, agent(Spool(), server.url) as one:
        server.acks = False
        one.batch()
        one.event()
        await until(lambda: server.events)
        for socket in server.open:
            await socket.send(encode(Ack(boot="b0", events_refused=[Refused(0, "malformed")])))
        await until(lambda: not one.spool.current.pending(EVENT))

        assert one.spool.current.pending(BATCH) == [0]
        assert dict(one.sender.refused) == {"malformed": 1}


async def test_frames_that_are_no_message_cost_themselves_alone(caplog: pytest.LogCaptureFixture) -> None:
    """What follows on the same connection is heard; a server gone mad costs the connection, and the next one is tried."""
    async with running() as server, agent(Spool(), server.url) as one:
        heard: list[int] = []
        one.sender.on_command = lambda command: heard.append(command.id)
        await until(lambda: server.open)
        for socket in set(server.open):
            await socket.send(b"\xff\xff")
            await socket.send(encode_text(Command(name="release", id=2**70)))
            await socket.send(encode_text(Ack(boot="b0", stored=[(0, 2**70)])))
            await socket.send(encode(Command(name="release", id=7)))
        await until(lambda: heard)
        assert (heard, server.connections) == ([7], 1)
        assert len([one for one in caplog.messages if "no message" in one]) == 1
        for socket in set(server.open):
            for _ in range(session.BAD_FRAMES):
                await socket.send(b"\xff\xff")
        await until(lambda: server.connections == 2)
        one.batch()
        await until(lambda: one.spool.current.is_empty)


def given_back(spool: Spool, group: Group, seq: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A disk that has errors where this batch lies, until it is told otherwise; asked again soon, in place of after half a minute."""
    monkeypatch.setattr(read_back, "UNREAD_S", 0.05)
    monkeypatch.setattr("agents.lane.UNREAD_S", 0.05)
    place = group.places[BATCH][seq]
    assert isinstance(place, tuple)
    file, begin, state = place[0].path.stat().st_ino, place[1], {"good": False}
    real = os.pread

    def read(fd: int, length: int, offset: int) -> bytes:
        if not state["good"] and os.fstat(fd).st_ino == file and offset <= begin < offset + length:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, length, offset)

    monkeypatch.setattr(os, "pread", read)
    return lambda good: state.update(good=good)


@pytest.mark.parametrize("boot", ["old0", "old1", "new"])
async def test_a_record_that_the_disk_does_not_give_back_is_lost_alone(
    tmp_path: Path, boot: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All others arrive, those of later runs too; it is counted and said once, and absences are told again."""
    spool = Spool(tmp_path)
    for earlier in ("old0", "old1"):
        one = Agent(spool, "ws://127.0.0.1:1/", boot=earlier)
        for _ in range(5):
            one.batch()
    async with running() as server, agent(spool, server.url, boot="new") as one:
        one.batch()
        group = next(group for group in (spool.current, *spool.earlier()) if group.hello.boot == boot)
        given_back(spool, group, 0, monkeypatch)
        for _ in range(4):
            one.batch()
        await until(lambda: not spool.waiting, 20)

        arrived = sorted((batch.boot, batch.seq) for batch in server.batches)
        assert arrived == [(run, seq) for run in ("new", "old0", "old1") for seq in range(5) if (run, seq) != (boot, 0)]
        assert (spool.dropped, spool.unreadable, server.connections) == (1, 1, 1)
        assert one.sender.lost_some()
        assert len([one for one in caplog.messages if "cannot be read back" in one]) == 1
    spool.close()


async def test_a_record_that_the_disk_gives_back_later_is_sent_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may be slow to mend itself, or a cable be put right."""
    spool = Spool(tmp_path)
    old = Agent(spool, "ws://127.0.0.1:1/", boot="old")
    for _ in range(3):
        old.batch()
    mend = given_back(spool, spool.current, 1, monkeypatch)
    monkeypatch.setattr(read_back, "UNREAD_S", 1000.0)
    async with running() as server, agent(spool, server.url, boot="new"):
        await until(lambda: spool.waiting == 1)
        mend(True)
        await until(lambda: not spool.waiting)

        assert seqs(server) == [0, 2, 1]
        assert (spool.dropped, spool.unreadable) == (0, 0)
    spool.close()


async def test_a_record_that_is_no_message_is_given_up_where_it_has_to_be_read(tmp_path: Path) -> None:
    """Text frames are made of what was kept; one that cannot be does not hold up those behind it."""
    spool = Spool(tmp_path)
    async with running() as server, agent(spool, server.url, as_text=True) as one:
        spool.append(BATCH, 100, b"\xff")
        one.sender.offer(BATCH, 100)
        one.batch()
        await until(lambda: not spool.waiting)

        assert (seqs(server), dict(one.sender.refused)) == ([0], {"malformed": 1})
    spool.close()


async def test_many_earlier_runs_are_delivered_over_several_connections(tmp_path: Path) -> None:
    """A crash loop leaves many boots; a server remembers few hellos a connection."""
    for number in range(session.HELLOS + 5):
        spool = Spool(tmp_path)
        Agent(spool, "ws://127.0.0.1:1/", boot=f"old{number}").batch()
        spool.close()
    async with running() as server, agent(Spool(tmp_path), server.url, boot="new") as one:
        one.batch()
        await until(lambda: one.spool.current.is_empty and not one.spool.earlier(), 20)
        one.spool.close()

        assert server.connections == 2
        assert len({batch.boot for batch in server.batches}) == session.HELLOS + 6


async def test_a_boot_that_the_server_forgot_is_not_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wrong_boot` after our own hello means that it was evicted, whether it comes as an error or in an ack."""
    monkeypatch.setattr(session, "HELLO_AGAIN_S", 0.0)
    forgot = iter([True])
    async with running() as server, agent(Spool(), server.url) as one:
        server.on_batch = lambda batch: refuse(batch, "wrong_boot") if next(forgot, False) else None
        one.batch()
        await until(lambda: one.spool.current.is_empty)

        assert len(server.hellos) == 2
        assert not one.sender.refused


async def test_a_hello_that_the_server_will_not_have_is_tried_again_seldom(caplog: pytest.LogCaptureFixture) -> None:
    """Its reason is said once, as an error."""
    async with running() as server, agent(Spool(), server.url) as one:
        server.on_hello = lambda hello: error("bad_hello")
        one.batch()
        await asyncio.sleep(0.3)

        assert not one.spool.current.is_empty
    assert sum("bad_hello: because" in record.getMessage() for record in caplog.records) == 1
