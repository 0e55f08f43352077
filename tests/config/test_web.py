"""A web process ends by itself, in time and with its last books written, whatever hangs around it."""

import asyncio
import re
import time
from pathlib import Path
from typing import Any, Final

import pytest

from config import supervisor, web
from fleet.ingest import service
from fleet.live import exchange
from fleet.store.victoria_durable import Page
from tests.deploy import compose_file
from tests.fleet.store.receiver import receiving
from tests.fleet.store.servers import running, victoria_program
from tests.serving import ROOT, Server, serve
from tests.speaking import Agent, batch, hello, speak
from wire.messages import Hello

COMPOSE: Final = compose_file.load(ROOT / "docker-compose.yml", {})


def graces() -> list[float]:
    """The seconds that each who runs a web process gives it to end."""
    services: dict[str, Any] = COMPOSE["services"]
    found = [
        compose_file.seconds(one.get("stop_grace_period", "10s"))
        for one in services.values()
        if "config.web" in (one.get("command") or ())
    ]
    assert found
    pods = re.findall(r"terminationGracePeriodSeconds: (\d+)", (ROOT / "deploy" / "kubernetes" / "base" / "web.yaml").read_text())
    return [*found, *map(float, pods), supervisor.GRACE_S]


def test_who_stops_a_web_process_gives_it_longer_than_it_takes() -> None:
    """The parts of a stop make less than what is said of the whole, here and in the documents; every grace is longer."""
    parts = web.CLOSE_S, 2 * exchange.LEAVE_S, service.STOP_S, service.LAST_BOOKS_S, service.LAST_THREADS_S
    told = re.findall(r"ends by itself within (\d+) s", (ROOT / "docs" / "how-to" / "operate.md").read_text())
    compose = re.findall(r"ends within (\d+) s", (ROOT / "docker-compose.yml").read_text())

    assert service.FLUSH_S < service.STOP_S
    assert sum(parts) + 1 <= web.ENDS_S
    assert told == compose == [str(web.ENDS_S)]
    assert min(graces()) >= web.ENDS_S + 3


def test_all_that_runs_a_web_process_is_looked_at() -> None:
    """Another recipe needs a grace too."""
    recipes = [ROOT / "docker-compose.yml", *(path for path in (ROOT / "deploy").rglob("*") if path.is_file())]
    run = {path.relative_to(ROOT).as_posix() for path in recipes if "config.web" in path.read_text(errors="replace")}

    assert run == {
        "docker-compose.yml",
        "deploy/server/Dockerfile",
        "deploy/kubernetes/base/web.yaml",
    }  # an image cannot name a grace


async def say(agent: Agent, said: Hello, t: float, *seqs: int) -> None:
    """Batches a second apart."""
    for seq in seqs:
        await agent.say(batch(said, seq, t + seq, {"power_w": float(seq)}))


def ends(server: Server, within_s: float | None = None) -> int:
    """The code with which it ends after SIGTERM, before anybody would kill it, or within so long."""
    assert server.process is not None
    server.process.terminate()
    return server.process.wait(within_s or min(graces()))


async def test_it_ends_in_time_with_a_receiver_that_hangs(tmp_path: Path) -> None:
    """What was taken is stored, the node is not left connected, the counters are those of the end."""
    with receiving() as receiver:
        receiver.delay_s = 120.0
        with serve(tmp_path / "data", {"FETTLE_FORWARD_URL": receiver.url}) as server:
            async with speak(server.agents, server.token("n")) as agent:
                said, t = await agent.greet(hello("n", gpus=1)), int(time.time()) - 100 + 0.5
                await say(agent, said, t, *range(3))
                assert await agent.acked(*range(3))
                assert await agent.until(lambda: bool(receiver.asked))
                await say(agent, said, t, *range(3, 6))
                await agent.greet(hello("n", "second", gpus=1))  # answered in order: the batches were read
                code = await asyncio.to_thread(ends, server)

            assert code == 0
            assert server.window("gpu", t, t + 9)["power_w"].to_list() == [0, 1, 2, 3, 4, 5]
            assert server.node("n")["disconnected_at"] is not None
            (intake,) = server.rows("SELECT numbers FROM ingest_intake")
            assert '"agents": 0' in intake["numbers"]


@pytest.mark.slow
async def test_it_ends_in_time_with_a_store_and_a_receiver_that_hang(tmp_path: Path) -> None:
    """VictoriaMetrics answers nothing any more, and neither does the receiver: what was not acked comes again, and the books are written."""
    with receiving() as receiver, running(victoria_program(tmp_path)) as program:
        receiver.delay_s = 120.0
        env = {"FETTLE_STORE": "victoriametrics", "FETTLE_STORE_URL": program.url, "FETTLE_FORWARD_URL": receiver.url}
        with serve(tmp_path / "data", env) as server:
            async with speak(server.agents, server.token("n")) as agent:
                said, t = await agent.greet(hello("n", gpus=1)), int(time.time()) - 100 + 0.5
                await say(agent, said, t, *range(3))
                assert await agent.until(lambda: bool(receiver.asked), 60)
                program.pause()
                await say(agent, said, t, *range(3, 6))
                code = await asyncio.to_thread(ends, server)
            program.go_on()

            assert code == 0
            assert server.node("n")["disconnected_at"] is not None
            assert "The store did not end within 4 s" in server.log.read_text()


async def test_it_does_not_wait_until_victoriametrics_has_its_rows_on_disk(tmp_path: Path) -> None:
    """They are sent; nobody hears an ack any more, and agents send what was not acked again."""
    with running(victoria_program(tmp_path)) as program:
        env = {"FETTLE_STORE": "victoriametrics", "FETTLE_STORE_URL": program.url}
        with serve(tmp_path / "data", env) as server:
            async with speak(server.agents, server.token("n")) as agent:
                said = await agent.greet(hello("n", gpus=1))
                await say(agent, said, int(time.time()) - 100 + 0.5, *range(3))
                await agent.greet(hello("n", "second", gpus=1))
                assert await asyncio.to_thread(ends, server, Page("1", {}).durable_after_s - 1) == 0
                assert agent.stored() == set()
            assert server.node("n")["disconnected_at"] is not None
