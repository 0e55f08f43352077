"""Kills, a store that cannot write, a full queue: nothing that was acked is lost or doubled, nothing else is acked."""

import asyncio
import math
import shutil
import time
from pathlib import Path

import pytest

from tests.serving import Server, eventually, serve
from tests.speaking import Agent, batch, hello, speak
from wire.messages import Error, Event, Hello

ROWS = 40


def values(server: Server, node: str, t: float) -> list[float]:
    """What the store has of the node's only GPU, one value a second."""
    (gpu,) = server.gpus(node)
    stored = server.window("gpu", t, t + ROWS, [gpu["id"]])
    assert stored["ts"].is_unique().all()
    kept: list[float] = stored["power_w"].to_list()
    return kept


async def say_all(agent: Agent, said: Hello, t: float, seqs: list[int]) -> None:
    """Batches whose power is their seq."""
    for seq in seqs:
        await agent.say(batch(said, seq, t + seq, {"power_w": float(seq)}))


async def test_a_kill_loses_nothing_acked_and_a_resend_doubles_nothing(own_data: Path) -> None:
    """SIGKILL in mid-stream: every acked row is there after the restart; what is sent again gives one row each."""
    with serve(own_data) as server:
        token, t = server.token("n"), math.floor(time.time()) - 100 + 0.5
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello("n", gpus=1))
            for start in range(0, ROWS, 4):
                await say_all(agent, said, t, list(range(start, start + 4)))
                await asyncio.sleep(0.2)
                if len(agent.stored()) > 8:
                    break
            await say_all(agent, said, t, list(range(ROWS - 5, ROWS)))
            server.kill()
            acked = agent.stored()
        assert 0 < len(acked) < ROWS
        assert {float(seq) for seq in acked} <= set(values(server, "n", t))

        server.start()
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello("n", gpus=1))
            await say_all(agent, said, t, list(range(ROWS)))  # all of it, as if no ack had arrived
            assert await agent.acked(*range(ROWS))

        assert values(server, "n", t) == [float(seq) for seq in range(ROWS)]


async def test_a_clean_stop_stores_what_was_received(own_data: Path) -> None:
    """SIGTERM: batches that were read are stored before the process ends, acked or not, and the node is not left connected."""
    with serve(own_data, {"FETTLE_FLUSH_S": "30"}) as server:
        token, t = server.token("n"), math.floor(time.time()) - 100 + 0.5
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello("n", gpus=1))
            await say_all(agent, said, t, list(range(5)))
            await agent.greet(hello("n", "second", gpus=1))  # answered in order: the batches were read
            server.stop()
            assert agent.stored() == set()

        assert values(server, "n", t) == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert server.node("n")["disconnected_at"] is not None


async def test_it_acks_nothing_while_the_store_cannot_write(own_data: Path) -> None:
    """A store whose disk refuses: no ack, one line in the log; when it can write again, all of it is stored and acked."""
    with serve(own_data) as server:
        token, t = server.token("n"), math.floor(time.time()) - 100 + 0.5
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello("n", gpus=1))
            shutil.rmtree(server.data / "series", ignore_errors=True)
            (server.data / "series").write_text("a file where the directory belongs")
            await say_all(agent, said, t, list(range(5)))
            assert await agent.until(lambda: "Telemetry is not stored" in server.log.read_text())
            await asyncio.sleep(2.5)
            assert agent.stored() == set()
            (server.data / "series").unlink()
            assert await agent.acked(*range(5))

        assert values(server, "n", t) == [0.0, 1.0, 2.0, 3.0, 4.0]
        assert server.log.read_text().count("Telemetry is not stored") == 1
        assert server.log.read_text().count("Telemetry is stored again") == 1


async def test_it_tells_agents_to_wait_when_the_queue_is_full(own_data: Path) -> None:
    """Above the queue's bounds a batch is `busy`: counted, not refused for good, and taken when it comes again."""
    with serve(own_data, {"FETTLE_QUEUE_BATCHES": "5", "FETTLE_FLUSH_S": "3"}) as server:
        token, t = server.token("n"), math.floor(time.time()) - 100 + 0.5
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello("n", gpus=1))
            await say_all(agent, said, t, list(range(8)))
            assert await agent.until(lambda: len(agent.of(Error)) == 3)
            assert [(error.code, error.seq) for error in agent.of(Error)] == [("busy", 5), ("busy", 6), ("busy", 7)]
            assert await agent.acked(*range(5))
            assert agent.refused() == {}
            await say_all(agent, said, t, [5, 6, 7])
            assert await agent.acked(*range(8))

        assert values(server, "n", t) == [float(seq) for seq in range(8)]
        assert eventually(lambda: server.refusals("n") == {"busy": 3})


@pytest.mark.parametrize(("ahead", "code"), [(-1000, "busy"), (1000, "bad_time")])
async def test_an_event_behind_refused_batches_is_acked_soon(own_data: Path, ahead: int, code: str) -> None:
    """The queue is full, or the node's clock is wrong: what is taken all the same is not held up by hundreds of batches that are not."""
    with serve(own_data, {"FETTLE_QUEUE_BATCHES": "5", "FETTLE_FLUSH_S": "60"}) as server:
        t = math.floor(time.time()) + ahead + 0.5
        async with speak(server.agents, server.token("n")) as agent:
            said = await agent.greet(hello("n", gpus=1))
            await say_all(agent, said, t, list(range(205)))
            await agent.say(Event(node="n", boot=said.boot, seq=0, t=t, kind="xid", gpu_uuid="GPU-n-0", code=31, text="an event"))
            assert await agent.until(lambda: agent.events() == {0}, 30)
            assert {error.code for error in agent.of(Error)} == {code}
            assert agent.stored() == set()


async def test_it_serves_on_when_a_node_is_deleted_under_its_agent(own_data: Path) -> None:
    """A person deletes the node: its connection ends, other nodes' batches are stored, and the agent's next hello enrols it anew."""
    with serve(own_data) as server:
        tokens = {name: server.token(name) for name in ("gone", "other")}
        async with speak(server.agents, tokens["gone"]) as gone, speak(server.agents, tokens["other"]) as other:
            leaver, stayer = await gone.greet(hello("gone")), await other.greet(hello("other"))
            await gone.say(batch(leaver, 0, time.time()))
            await other.say(batch(stayer, 0, time.time()))
            assert await gone.acked(0)
            for table in ("absence", "event", "gpu"):
                server.execute(
                    f"DELETE FROM inventory_{table} WHERE node_id IN (SELECT id FROM inventory_node WHERE name = 'gone')"
                )
            server.execute("DELETE FROM inventory_node WHERE name = 'gone'")
            assert await gone.until(lambda: gone.closed) == 1012
            await other.say(batch(stayer, 1, time.time() + 1))
            assert await other.acked(1)
        async with speak(server.agents, tokens["gone"]) as gone:
            again = await gone.greet(hello("gone"))
            await gone.say(batch(again, 5, time.time()))
            assert await gone.acked(5)
