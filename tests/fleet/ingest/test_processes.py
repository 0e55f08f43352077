"""Several processes take agents in on one database and one store: a node that moves between them is not lost, doubled or mistaken."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serving import Server, serve
from tests.speaking import batch, hello, speak
from wire.messages import AbsentChange, Labels, Processes

Two = tuple[Server, Server]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Two running processes on one data directory."""
    with serve(tmp_path_factory.mktemp("two") / "data") as one:
        other = Server(one.data)
        other.start()
        try:
            yield one, other
        finally:
            other.stop()


async def steadily(answer: Any, wanted: object, seconds: float = 8.0) -> bool:
    """True when `answer()` becomes `wanted` and stays so for as long as two rounds of the books take."""
    deadline, since = time.monotonic() + 20, None
    while time.monotonic() < deadline:
        if answer() != wanted:
            since = None
        elif since is None:
            since = time.monotonic()
        elif time.monotonic() - since > seconds:
            return True
        await asyncio.sleep(0.2)
    return False


def absences(server: Server, node: str) -> list[tuple[str, bool]]:
    """The node's absences, oldest first: the reason, and whether it ended."""
    rows = server.rows(
        "SELECT a.reason, a.until FROM inventory_absence a JOIN inventory_node n ON n.id = a.node_id WHERE n.name = ? ORDER BY a.since",
        node,
    )
    return [(row["reason"], row["until"] is not None) for row in rows]


async def test_what_changed_at_another_process_is_known_when_the_node_comes_back(two: Two, node: str) -> None:
    """An absence that ended elsewhere and begins again is a second interval: nobody judges by what it remembers from before."""
    one, other = two
    token, t = one.token(node), time.time() - 20
    turns = [(one, "timeout"), (other, None), (one, "timeout"), (other, "not_permitted")]
    for seq, (server, reason) in enumerate(turns):
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello(node, gpus=1))
            await agent.say(batch(said, seq, t + seq, {"sm_active": 0.5}, absent=[AbsentChange(0, "power_w", reason)]))
            assert await agent.acked(seq)

    assert absences(one, node) == [("timeout", True), ("timeout", True), ("not_permitted", False)]
    (gpu,) = one.gpus(node)
    assert one.window("gpu", t - 1, t + 10, [gpu["id"]])["sm_active"].to_list() == [0.5] * 4


async def test_labels_told_elsewhere_are_not_told_over_by_what_is_remembered(two: Two, node: str) -> None:
    """A process's labels that changed at the other server process change again when the node is back and says so."""
    one, other = two
    token, t = one.token(node), time.time() - 20
    for seq, (server, job) in enumerate(((one, "1"), (other, "2"), (one, "1"))):
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello(node, gpus=1))
            processes = Processes(
                pid=[7],
                name=["train"],
                user=["u"],
                values=[[None]] * len(said.process_metrics),
                labels=[Labels(7, {"slurm_job": job})],
            )
            await agent.say(batch(said, seq, t + seq, processes=processes))
            assert await agent.acked(seq)

    rows = one.rows("SELECT labels FROM inventory_process p JOIN inventory_node n ON n.id = p.node_id WHERE n.name = ?", node)

    assert [row["labels"] for row in rows] == ['{"slurm_job": "1"}']


async def test_a_connection_that_ends_late_does_not_end_the_one_elsewhere(two: Two, node: str) -> None:
    """An agent comes to one process while its old connection to the other still stands: it stays connected when that ends."""
    one, other = two
    token = one.token(node)
    async with speak(other.agents, token) as agent:
        async with speak(one.agents, token) as before:
            said = await before.greet(hello(node))
            await before.say(batch(said, 0, time.time()))
            await agent.greet(hello(node))
        await agent.say(batch(said, 1, time.time()))
        assert await agent.acked(1)

        assert await steadily(lambda: one.node(node)["disconnected_at"], None)
    assert "conflict" not in one.refusals(node)
    assert await agent.until(lambda: one.node(node)["disconnected_at"] is not None)


async def test_a_backlog_that_comes_to_another_process_changes_no_inventory(two: Two, node: str) -> None:
    """The hello of an earlier boot, said to the process that the node does not speak to, leaves the node as its live boot said."""
    one, other = two
    token, t = one.token(node), int(time.time()) + 0.5
    async with speak(one.agents, token) as live, speak(other.agents, token) as beside:
        now = await live.greet(hello(node, "new", 1))
        await live.say(batch(now, 0, t, {"power_w": 1.0}))
        assert await live.acked(0)
        earlier = await beside.greet(hello(node, "old", 2))
        await beside.say(batch(earlier, 7, t - 100, {"power_w": 2.0}))
        assert await beside.acked(7)
        served_by = one.node(node)["served_by"]

        assert await steadily(lambda: (one.node(node)["boot"], one.node(node)["served_by"]), ("new", served_by), 4.0)
        assert [gpu["present"] for gpu in one.gpus(node)] == [1, 0]

    first, _second = one.gpus(node)
    assert one.window("gpu", t - 300, t + 1, [first["id"]])["power_w"].to_list() == [2.0, 1.0]
    assert "conflict" not in one.refusals(node)


async def test_a_restarted_agent_that_comes_to_another_process_takes_over(two: Two, node: str) -> None:
    """A new boot is what the inventory shows once it sends newer samples, though its last connection was never closed."""
    one, other = two
    token = one.token(node)
    async with speak(one.agents, token) as hanging, speak(other.agents, token) as agent:
        said = await hanging.greet(hello(node, "first", 2))
        await hanging.say(batch(said, 0, time.time() - 5))
        assert await hanging.acked(0)
        again = await agent.greet(hello(node, "second", 1))
        await agent.say(batch(again, 0, time.time()))
        assert await agent.acked(0)

        assert await steadily(lambda: one.node(node)["boot"], "second", 4.0)
        assert "conflict" not in one.refusals(node)


async def test_two_agents_with_one_token_on_two_processes_are_a_conflict(two: Two, node: str) -> None:
    """Both are stored, it is counted, and the node does not change hands again and again."""
    one, other = two
    token, start = one.token(node), time.time()
    async with speak(one.agents, token) as first, speak(other.agents, token) as second:
        said = [await first.greet(hello(node, "one")), await second.greet(hello(node, "two"))]
        boots = set()
        hands: list[str] = []
        for seq in range(16):
            for agent, of, shift in ((first, said[0], 0.0), (second, said[1], 0.3)):
                await agent.say(batch(of, seq, time.time() + shift, {"power_w": 1.0}))
            row = one.node(node)
            boots.add(row["boot"])
            if not hands or hands[-1] != row["served_by"]:
                hands.append(row["served_by"])
            await asyncio.sleep(1)
        assert await first.acked(*range(16))
        assert await second.acked(*range(16))

    assert one.refusals(node).get("conflict") == 1
    assert len(hands) <= 2
    rows = one.window("gpu", start - 1, time.time() + 2, [one.gpus(node)[0]["id"]])
    assert rows["power_w"].null_count() == 0
