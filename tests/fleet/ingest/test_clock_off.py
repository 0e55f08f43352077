"""Nodes whose clocks are off, at a real server: the skew is known from the hello on, and times are the server's."""

import time

import pytest

from tests.serving import Server, eventually
from tests.speaking import batch, hello, speak
from wire.messages import AbsentChange, Event


@pytest.mark.parametrize("skew", [-45.0, -600.0, -7200.0, 30.0])
async def test_its_skew_is_known_from_the_hello_on(server: Server, node: str, skew: float) -> None:
    """It reports, its rows keep its own times so that a batch sent again finds its row, and what is told of it is in ours."""
    began = time.time()
    t = began + skew
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, t=t))
        await agent.say(batch(said, 0, t, {"power_w": 300.0}, absent=[AbsentChange(0, "sm_active", "timeout")]))
        await agent.say(Event(node=node, boot=said.boot, seq=0, t=t, kind="xid", code=79))
        assert await agent.acked(0)
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, t=time.time() + skew))
        await agent.say(batch(said, 0, t, {"power_w": 300.0}))
        assert await agent.acked(0)

    # The skew is written after last_seen_at, in a transaction of its own.
    row = eventually(lambda: server.node(node) if server.node(node)["clock_skew_s"] is not None else None)
    assert row["clock_skew_s"] == pytest.approx(skew, abs=1)
    gpu = server.gpus(node)[0]
    assert server.window("gpu", t - 60, t + 60, [gpu["id"]])["power_w"].to_list() == [300.0]
    for table, column in (("absence", "since"), ("event", "observed_at")):
        query = f"SELECT strftime('%s', {column}) AS at FROM inventory_{table} WHERE node_id = ?"
        (told,) = server.rows(query, row["id"])
        assert abs(int(told["at"]) - began) < 3, table
    seen = server.rows("SELECT strftime('%s', last_seen_at) AS at FROM inventory_node WHERE name = ?", node)
    assert abs(int(seen[0]["at"]) - began) < 3


async def test_a_backlog_that_comes_before_anything_live_is_no_skew(server: Server, node: str) -> None:
    """An agent that was cut off sends what is oldest first, also of an earlier boot: its hello says that its clock is right."""
    now = time.time()
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, t=now))
        await agent.say(*(batch(said, seq, now - 300 + seq, {"power_w": 1.0}) for seq in range(3)))
        earlier = await agent.greet(hello(node, "boot-0", t=now))
        await agent.say(batch(earlier, 0, now - 500, {"power_w": 1.0}))
        assert await agent.acked(0, boot="boot-0")
        assert await agent.acked(2, boot="boot-1")

    row = eventually(lambda: server.node(node) if server.node(node)["clock_skew_s"] is not None else None)
    assert row["clock_skew_s"] == pytest.approx(0, abs=1)


@pytest.mark.parametrize("late", [20.0, 600.0])
async def test_a_backlog_of_an_agent_that_tells_no_time_makes_its_node_no_fresher(server: Server, node: str, late: float) -> None:
    """Its clock is not known, also where an earlier connection told one, and it was last seen when its newest sample says."""
    now = time.time()
    async with speak(server.agents, server.token(node)) as agent:
        await agent.greet(hello(node, t=now - 45))
        assert eventually(lambda: server.node(node))
    async with speak(server.agents, server.token(node)) as agent:
        said = await agent.greet(hello(node, "boot-2"))
        await agent.say(*(batch(said, seq, time.time() - late, {"power_w": 1.0}) for seq in range(3)))
        assert await agent.acked(2)

    assert eventually(lambda: server.node(node)["last_seen_at"])
    query = "SELECT clock_skew_s, strftime('%s', last_seen_at) AS at FROM inventory_node WHERE name = ?"
    (row,) = server.rows(query, node)
    assert row["clock_skew_s"] is None
    assert now - int(row["at"]) > late - 5


@pytest.mark.parametrize("t", [float("nan"), float("inf"), -1e300, 0.0, 1e300])
async def test_a_hellos_time_that_cannot_be_is_passed_over(server: Server, node: str, t: float) -> None:
    """The hello is taken; batches tell the skew."""
    now = time.time()
    async with speak(server.agents, server.token(node)) as agent:
        said = hello(node, t=t)
        await agent.say(said) if t == t and abs(t) != float("inf") else await agent.raw(_binary(said))
        await agent.say(batch(said, 0, now, {"power_w": 1.0}))
        assert await agent.acked(0)

    row = eventually(lambda: server.node(node) if server.node(node)["clock_skew_s"] is not None else None)
    assert row["clock_skew_s"] == pytest.approx(0, abs=1)


def _binary(message: object) -> bytes:
    from wire.codec import encode

    return encode(message)  # type: ignore[arg-type]
