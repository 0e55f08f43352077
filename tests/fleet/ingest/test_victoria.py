"""Ingest on a real VictoriaMetrics: acks only for what is durable there, and an agent's batches over an absence of the server."""

import asyncio
import math
import time
import urllib.request
from pathlib import Path

import pytest

from tests.fleet.store.servers import running, victoria, victoria_program
from tests.serving import Server, serve
from tests.speaking import Agent, batch, hello, speak
from wire.messages import Hello


def values(server: Server, url: str, t: float) -> list[float]:
    """What VictoriaMetrics has of the node's only GPU, one value a second."""
    (gpu,) = server.gpus("n")
    found = victoria(url, "fettle").window("gpu", int(t), int(t) + 1000, [gpu["id"]])
    assert found["ts"].is_unique().all()
    told: list[float] = found["power_w"].to_list()
    return told


async def say(agent: Agent, said: Hello, t: float, *seqs: int) -> None:
    """Batches whose power is their seq."""
    for seq in seqs:
        await agent.say(batch(said, seq, t + seq, {"power_w": float(seq)}))


@pytest.mark.slow
async def test_a_server_that_is_away_for_half_a_minute_costs_no_sample(tmp_path: Path) -> None:
    """Ingest takes batches and acks none while VictoriaMetrics is away; it finds it again by itself, and a kill there loses nothing that was acked."""
    program = victoria_program(tmp_path)
    env = {"FETTLE_STORE": "victoriametrics", "FETTLE_STORE_URL": program.url}
    with running(program), serve(tmp_path / "data", env) as server:
        token, t = server.token("n"), math.floor(time.time()) - 100 + 0.5
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello("n", gpus=1))
            await say(agent, said, t, 0, 1, 2)
            await asyncio.sleep(3)
            assert agent.stored() == set()  # taken by VictoriaMetrics, not on its disk yet
            assert await agent.until(lambda: agent.stored() == {0, 1, 2}, 30)
            program.kill()
            await say(agent, said, t, *range(3, 30))
            await asyncio.sleep(30)
            assert agent.stored() == {0, 1, 2}
            assert server.get("/healthz")
            program.start()
            await say(agent, said, t, 30)
            assert await agent.until(lambda: agent.stored() == set(range(31)), 90)
        program.kill()
        program.start()

        assert values(server, program.url, t) == [float(seq) for seq in range(31)]
        log = server.log.read_text()
        assert f"VictoriaMetrics at {program.url}/metrics cannot be reached: Connection refused" in log
        assert log.count("Telemetry is stored again") == 1


@pytest.mark.slow
@pytest.mark.long
async def test_the_last_word_of_a_second_is_kept_over_a_kill_between_the_words(tmp_path: Path) -> None:
    """The first word is lost with VictoriaMetrics' memory and sent again, after the later one: the later one is what is kept."""
    program = victoria_program(tmp_path)
    env = {"FETTLE_STORE": "victoriametrics", "FETTLE_STORE_URL": program.url}
    with running(program), serve(tmp_path / "data", env) as server:
        token, t = server.token("n"), math.floor(time.time()) - 100 + 0.5
        async with speak(server.agents, token) as agent:
            said = await agent.greet(hello("n", gpus=1))
            await agent.say(batch(said, 0, t, {"power_w": 100.0, "temperature_c": 50.0}))
            await asyncio.sleep(3)
            program.kill()
            program.start()
            await agent.say(batch(said, 1, t, {"power_w": 300.0}))
            assert await agent.until(lambda: agent.stored() == {0, 1}, 60)
            assert "was restarted before the samples were on its disk" in server.log.read_text()
        (gpu,) = server.gpus("n")
        urllib.request.urlopen(program.url + "/internal/force_flush", timeout=10).close()
        found = victoria(program.url, "fettle").window("gpu", int(t), int(t) + 1, [gpu["id"]], ["power_w", "temperature_c"])

        assert found.select("power_w", "temperature_c").rows() == [(300.0, None)]
