"""Browsers watch: logged in only, the right shape, absent as null, nothing for who asks for nothing."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from fleet.live.payloads import FLEET_COLUMNS, NODE_COLUMNS
from tests.serving import Server
from tests.speaking import GPU, HOST, PROCESS, batch, hello, speak
from wire.messages import Hold, Processes

ORIGIN = "http://127.0.0.1"


@asynccontextmanager
async def watching(server: Server, cookie: str, origin: str = ORIGIN) -> AsyncIterator[ClientConnection]:
    """A browser's socket with this session."""
    headers = {"Cookie": f"sessionid={cookie}"} if cookie else {}
    async with connect(server.live, additional_headers=headers, origin=origin, proxy=None, close_timeout=1) as socket:  # type: ignore[arg-type]
        yield socket


async def frame(socket: ClientConnection) -> dict[str, Any]:
    """The next frame."""
    text = await asyncio.wait_for(socket.recv(), 10)
    assert isinstance(text, str)
    decoded: dict[str, Any] = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    return decoded


@pytest.fixture(scope="module")
def session(server: Server) -> str:
    """A logged-in person's session."""
    return server.session("ann")


async def test_it_refuses_who_is_not_logged_in(server: Server, session: str) -> None:
    """No session, a made-up one and another site's page get HTTP 403."""
    for cookie, origin in (("", ORIGIN), ("made-up", ORIGIN), (session, "http://evil.example")):
        with pytest.raises(InvalidStatus) as refused:
            async with watching(server, cookie, origin):
                pass
        assert refused.value.response.status_code == 403


async def test_it_shows_the_fleet_a_node_and_a_gpu(server: Server, session: str) -> None:
    """Each view has the columns that it documents, this node's values, null where absent, and moves with the next batch."""
    async with speak(server.agents, server.token("seen")) as agent, watching(server, session) as socket:
        said = await agent.greet(hello("seen"))
        processes = Processes(pid=[7], name=["train.py"], user=["ann"], values=[[50.0]] * len(PROCESS), holds=[Hold(1, 7, 123)])
        await agent.say(
            batch(said, 0, time.time(), {"power_w": 300.0, "sm_active": 0.25}, {"cpu_busy_cores": 2.0}, processes=processes)
        )
        assert await agent.acked(0)
        node, (first, second) = server.node("seen")["id"], [gpu["id"] for gpu in server.gpus("seen")]

        await socket.send('{"subscribe": "fleet"}')
        fleet = await frame(socket)
        assert fleet["columns"] == list(FLEET_COLUMNS)
        rows = {row[0]: dict(zip(FLEET_COLUMNS, row, strict=True)) for row in fleet["rows"]}
        assert rows[first]["node"] == node
        assert (rows[first]["power_w"], rows[first]["sm_active"], rows[first]["temperature_c"]) == (300.0, 0.25, None)
        assert 0 <= rows[first]["age_s"] < 10

        await socket.send(json.dumps({"subscribe": "node", "id": node}))
        shown = await until_type(socket, "node")
        assert shown["columns"] == list(NODE_COLUMNS)
        assert [row[0] for row in shown["rows"]] == [first, second]
        assert shown["host"]["cpu_busy_cores"] == 2.0
        assert set(shown["host"]) == {*HOST, "age_s"}
        assert [(p["gpu"], p["pid"], p["name"], p["gpu_mem_bytes"], p["cpu_pct"]) for p in shown["processes"]] == [
            (second, 7, "train.py", 123, 50.0)
        ]

        await socket.send(json.dumps({"subscribe": "gpu", "id": second}))
        seen = await until_type(socket, "gpu")
        assert set(seen["metrics"]) == set(GPU)
        assert (seen["node"], seen["metrics"]["power_w"], seen["metrics"]["fp64_active"]) == (node, 300.0, None)
        assert [process["pid"] for process in seen["processes"]] == [7]
        assert seen["history"]["power_w"] == [300.0]
        assert len(seen["history"]["ts"]) == 1

        await agent.say(batch(said, 1, time.time() + 0.5, {"power_w": 400.0}))
        for _ in range(6):
            seen = await frame(socket)
            if seen["metrics"]["power_w"] == 400.0:
                break
        assert seen["metrics"]["power_w"] == 400.0
        assert "history" not in seen
        assert seen["processes"] == []


async def until_type(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next frame of a view; one of the view before may still come."""
    for _ in range(3):
        found = await frame(socket)
        if found["type"] == kind:
            return found
    raise AssertionError(f"no {kind} frame")


async def test_it_shows_nulls_for_what_it_does_not_know(server: Server, session: str) -> None:
    """A node and a GPU that do not exist have the same shape, empty."""
    async with watching(server, session) as socket:
        await socket.send('{"subscribe": "node", "id": 424242}')
        node = await frame(socket)
        await socket.send('{"subscribe": "gpu", "id": 424242}')
        gpu = await until_type(socket, "gpu")

    assert (node["rows"], node["processes"], node["host"]["age_s"]) == ([], [], None)
    assert (gpu["age_s"], gpu["node"], gpu["history"]["ts"]) == (None, None, [])
    assert set(gpu["metrics"].values()) == {None}


async def test_an_age_grows_when_a_node_falls_silent(server: Server, session: str) -> None:
    """Nothing is repeated as if it were new: the value stays, its age grows."""
    async with speak(server.agents, server.token("silent")) as agent:
        said = await agent.greet(hello("silent", gpus=1))
        await agent.say(batch(said, 0, time.time(), {"power_w": 1.0}))
        assert await agent.acked(0)
    (gpu,) = server.gpus("silent")
    async with watching(server, session) as socket:
        await socket.send(json.dumps({"subscribe": "gpu", "id": gpu["id"]}))
        ages = [(await frame(socket))["age_s"] for _ in range(3)]

    assert ages == sorted(ages)
    assert ages[2] - ages[1] > 0.5  # the first frame comes at once, the others a second apart


async def test_it_takes_a_nodes_wrong_clock_out_of_the_age(server: Server, session: str) -> None:
    """A clock 40 s ahead or 5 minutes behind makes no reading look newer or older than it is."""
    for name, ahead in (("fast", 40.0), ("slow", -300.0)):
        async with speak(server.agents, server.token(name)) as agent, watching(server, session) as socket:
            said = await agent.greet(hello(name, gpus=1, t=time.time() + ahead))  # as our agent says it
            for seq in range(3):
                await agent.say(batch(said, seq, time.time() + ahead, {"power_w": 1.0}))
                await asyncio.sleep(1)
            assert await agent.acked(2)
            await socket.send(json.dumps({"subscribe": "gpu", "id": server.gpus(name)[0]["id"]}))

            assert (await frame(socket))["age_s"] < 5


@pytest.mark.parametrize(
    "message",
    ["", "hello", "[]", '{"subscribe": "users"}', '{"subscribe": "node"}', '{"subscribe": "gpu", "id": -1}', '{"subscribe": "gpu", "id": "1"}',
     '{"subscribe": "fleet", "also": 1}', '{"subscribe": "gpu", "id": 99999999999999999999}', "[" * 900, "x" * 5000],
)  # fmt: skip
async def test_it_answers_what_it_cannot_understand(server: Server, session: str, message: str) -> None:
    """An error frame, and the connection goes on."""
    async with watching(server, session) as socket:
        await socket.send(message)
        assert (await frame(socket))["type"] == "error"
        await socket.send('{"subscribe": "fleet"}')
        assert (await frame(socket))["type"] == "fleet"


async def test_it_sends_nothing_to_who_has_not_subscribed(server: Server, session: str) -> None:
    """A socket that asked for nothing gets nothing."""
    async with watching(server, session) as socket:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 2.5)
