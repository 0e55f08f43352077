"""Forwarding beside a real server: acks never wait for it, what is dropped is counted, and it goes on by itself."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from cramjam import snappy
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from fleet.ingest.forwarding import Forwarder, _Waiting
from fleet.store.forward import forward
from tests.fleet.api.test_real_prometheus import api_token
from tests.fleet.ingest.telling import URL, engines, telling
from tests.fleet.rows import node
from tests.fleet.store.prometheus import prometheus
from tests.fleet.store.receiver import WriteReceiver, receiving
from tests.fleet.store.test_remote_write import read
from tests.serving import Server, serve
from tests.speaking import Agent, batch, hello, speak
from wire.messages import Hello


async def say(agent: Agent, said: Hello, t: float, *seqs: int, **more: Any) -> None:
    """Batches whose power is their seq, and acks for all of them."""
    for seq in seqs:
        await agent.say(batch(said, seq, t + seq, {"power_w": float(seq)}, **more))
    assert await agent.acked(*seqs)


def numbers(server: Server, *names: str) -> dict[str, float]:
    """What the process told last, as /metrics does, by the name of its counter."""
    found = server.rows("SELECT numbers FROM ingest_intake ORDER BY seen_at DESC LIMIT 1")
    told = json.loads(found[0]["numbers"]) if found else {}
    return {name: told.get(f"forward.{name}", 0) for name in names}


async def until(call: Callable[[], Any], seconds: float = 30.0) -> Any:
    """The call's first true answer; the last one when none came in time."""
    deadline = time.monotonic() + seconds
    while not (answer := call()) and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    return answer


def seconds(receiver: WriteReceiver, name: str) -> list[float]:
    """The values that the receiver has of one metric, in the order in which they came."""
    series = [one for body in receiver.got for one in read_plain(body)]
    return [value for labels, samples in series if labels["__name__"] == name for _, value in samples]


def read_plain(body: bytes) -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
    """The series of a request that is unpacked already."""
    return read(bytes(snappy.compress_raw(body)))


async def test_a_real_prometheus_has_every_second_that_was_stored(tmp_path: Path) -> None:
    """Of GPUs, host and engines, exactly once and with the time of the server's clock, though the node's is an hour behind."""
    with (
        prometheus(tmp_path / "prometheus", "", "--web.enable-remote-write-receiver") as program,
        serve(tmp_path / "data", {"FETTLE_FORWARD_URL": program.url + "/api/v1/write"}) as server,
    ):
        token, now = server.token("n"), int(time.time()) - 20
        async with speak(server.agents, token) as agent:
            said = await agent.greet(msgspec.structs.replace(telling("n"), t=time.time() - 3600))
            told = engines(URL, requests_running=3)
            await say(agent, said, now - 3600 + 0.5, *range(10), host={"load_1min": 1.5}, engines=told)
            await until(lambda: numbers(server, "rows")["rows"] == 40)

            assert numbers(server, "rows", "failing", "dropped.full") == {"rows": 40, "failing": 0, "dropped.full": 0}
            found = program.raw('fettle_gpu_power_w{gpu="1"}', 300)
            assert [value for _, value in found] == [float(seq) for seq in range(10)]
            for name in ("fettle_host_load_1min", "fettle_engine_requests_running"):
                assert [at for at, _ in program.raw(name, 300)] == [at for at, _ in found]
            assert abs(found[0][0] - now) <= 2
            ((labels, value),) = program.query("fettle_engine_requests_running")
            assert value == 3
            assert labels.items() >= {"engine": URL, "kind": "vllm", "model": "Qwen3-8B", "Hostname": "n"}.items()


async def test_a_receiver_that_is_busy_away_or_hangs_costs_no_ack_and_gets_all_later(tmp_path: Path) -> None:
    """429, 500 and silence are told of once; agents notice nothing, and no row is lost while the queue has room."""
    with receiving() as receiver:
        receiver.statuses = [429, 500, 503]
        env = {"FETTLE_FORWARD_URL": receiver.url, "FETTLE_FORWARD_TIMEOUT_S": "1", "FETTLE_FORWARD_METRICS": "gpu.power_w"}
        with serve(tmp_path / "data", env) as server:
            async with speak(server.agents, server.token("n")) as agent:
                said, now = await agent.greet(hello("n", gpus=1)), int(time.time()) - 100 + 0.5
                await say(agent, said, now, *range(5))
                assert len(receiver.got) == 0
                assert await until(lambda: seconds(receiver, "fettle_gpu_power_w") == [0, 1, 2, 3, 4])
                assert await until(lambda: numbers(server, "failing", "rows") == {"failing": 0, "rows": 5})
                receiver.delay_s = 3.0
                await say(agent, said, now, *range(5, 10))
                assert await until(lambda: numbers(server, "failing")["failing"] == 1)
                receiver.delay_s = 0.0
                assert await until(lambda: numbers(server, "failing", "rows") == {"failing": 0, "rows": 10})
                assert set(seconds(receiver, "fettle_gpu_power_w")) == set(range(10))
            log = server.log.read_text()
        assert log.count("Telemetry is not forwarded, it waits") == 2
        assert log.count("Telemetry is forwarded again") == 2
        assert {labels["__name__"] for body in receiver.got for labels, _ in read_plain(body)} == {"fettle_gpu_power_w"}


async def test_a_receiver_that_refuses_is_not_said_to_take_rows_again(tmp_path: Path) -> None:
    """Only after it took something, and with the number of rows that were lost until then."""
    with receiving() as receiver:
        receiver.statuses = [503, 400]
        env = {"FETTLE_FORWARD_URL": receiver.url, "FETTLE_FORWARD_METRICS": "gpu.power_w"}
        with serve(tmp_path / "data", env) as server:
            async with speak(server.agents, server.token("n")) as agent:
                said, now = await agent.greet(hello("n", gpus=1)), int(time.time()) - 100 + 0.5
                await say(agent, said, now, 0)
                assert await until(lambda: numbers(server, "dropped.refused")["dropped.refused"] == 1)
                assert numbers(server, "failing", "rows") == {"failing": 1, "rows": 0}
                assert "forwarded again" not in server.log.read_text()
                await say(agent, said, now, 1)
                assert await until(lambda: numbers(server, "failing", "rows") == {"failing": 0, "rows": 1})
            log = server.log.read_text()
        assert log.count("Telemetry is forwarded again; 1 rows were dropped meanwhile") == 1


@pytest.mark.django_db
def test_rows_of_an_engine_that_the_inventory_forgot_are_counted(settings: Settings) -> None:
    """They cannot be told of, so they are dropped, and not in silence."""
    settings.FETTLE_FORWARD_URL, settings.FETTLE_FORWARD_METRICS = "http://127.0.0.1:9/api/v1/write", ["engine.*"]
    to = forward()
    assert to is not None
    forwarder = Forwarder(to, 1_000_000)
    home = node()
    rows = pl.DataFrame({"node": [home.pk] * 2, "name": ["http://127.0.0.1:1"] * 2, "ts": [1, 2], "requests_running": [1.0, 2.0]})
    assert forwarder._parts(_Waiting({}, [rows], {}, {}, 2, 100)) == []

    assert forwarder.numbers()["forward.dropped.gone"] == 2


@pytest.mark.slow
async def test_a_queue_that_is_full_drops_its_oldest_and_says_so_once(tmp_path: Path) -> None:
    """The bound holds, /metrics counts what went, and what is newest arrives when the receiver is back."""
    with receiving() as receiver:
        receiver.always = 503
        env = {"FETTLE_FORWARD_URL": receiver.url, "FETTLE_FORWARD_QUEUE_MB": "1", "FETTLE_METRICS_GPUS": "1"}
        with serve(tmp_path / "data", env) as server:
            bearer = api_token(server, "prometheus")
            async with speak(server.agents, server.token("n")) as agent:
                said, now = await agent.greet(hello("n", gpus=64)), int(time.time()) - 1000 + 0.5
                for start in range(0, 100, 10):
                    await say(agent, said, now, *range(start, start + 10))
                    await asyncio.sleep(1.1)
                assert await until(lambda: numbers(server, "dropped.full")["dropped.full"] > 0)
                told = metrics(server, bearer)
                assert told["fettle_forward_queue_bytes"] <= 1_000_000
                assert told["fettle_forward_failing"] == 1
                assert told["fettle_forward_dropped_rows_total full"] > 0
                receiver.always = None
                assert await until(lambda: numbers(server, "failing", "queue_bytes") == {"failing": 0, "queue_bytes": 0}, 60)
                there = seconds(receiver, "fettle_gpu_power_w")
                assert there.count(99.0) == 64
                told = metrics(server, bearer)
                lost = told["fettle_forward_dropped_rows_total full"]
                assert (
                    told["fettle_forward_rows_total"] + lost
                    == told["fettle_ingest_rows_total gpu"] + told["fettle_ingest_rows_total host"]
                )
            log = server.log.read_text()
        assert log.count("its oldest rows are dropped") == 1
        assert log.count("Telemetry is not forwarded") == 1


async def test_a_server_that_stops_does_not_wait_for_a_receiver_that_hangs(tmp_path: Path) -> None:
    """It ends within the seconds that it gives the last rows, and says how many were left."""
    with receiving() as receiver:
        receiver.delay_s = 60.0
        with serve(tmp_path / "data", {"FETTLE_FORWARD_URL": receiver.url}) as server:
            async with speak(server.agents, server.token("n")) as agent:
                said = await agent.greet(hello("n", gpus=1))
                await say(agent, said, int(time.time()) - 100 + 0.5, *range(3))
                await until(lambda: receiver.asked)
                await say(agent, said, int(time.time()) - 50 + 0.5, *range(3, 6))
            await asyncio.to_thread(server.stop)
            assert "were not forwarded before the server stopped" in server.log.read_text()


def metrics(server: Server, bearer: str) -> dict[str, float]:
    """/metrics, by name and all labels but the process."""
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Authorization": f"Bearer {bearer}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        text = answer.read().decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = [value for name, value in one.labels.items() if name != "process"]
            found[" ".join([one.name, *labels])] = one.value
    return found


@pytest.mark.parametrize("metrics_list", ["gpu.watts", "gpu.*,gps.*"])
def test_a_server_whose_list_names_nothing_does_not_start(tmp_path: Path, metrics_list: str) -> None:
    """The sentence names the pattern; a list that silently forwards nothing would be found out too late."""
    env = {"FETTLE_FORWARD_URL": "http://127.0.0.1:9/api/v1/write", "FETTLE_FORWARD_METRICS": metrics_list}
    with pytest.raises(RuntimeError, match="names no metric"), serve(tmp_path / "data", env):
        pass
