"""Serving engines asked over HTTP, against stub servers of our own that serve published answers."""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents import asked_engine, engine_readings, engines
from agents.config import load
from agents.engine_readings import ENGINE_METRICS
from agents.engine_search import SEARCH_S, Search
from agents.engines import EngineCollector, EngineRows
from agents.machine import Machine
from agents.room import OWN_BYTES
from agents.source import ENGINE
from tests.agents.dripping import dripping
from tests.agents.exporter import Exporter, answer, exporter, free_port
from wire.messages import Cell


@pytest.fixture
def stub() -> Iterator[Exporter]:
    """A running vLLM of two replicas."""
    with exporter() as running:
        running.serve("vllm-v1.prom")
        yield running


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    def tick(self, collector: EngineCollector, seconds: float = 1.0) -> EngineRows:
        """The next tick, once nothing is under way any more."""
        self.now += seconds
        collector.collect(self.now)
        return settled(collector, self.now)


def settled(collector: EngineCollector, now: float) -> EngineRows:
    """The rows once every thread has ended its job."""
    ends = time.monotonic() + 30
    while collector.is_busy:
        assert time.monotonic() < ends
        time.sleep(0.005)
    return collector.collect(now)


def named(rows: EngineRows, row: int = 0) -> dict[str, Cell | str | None]:
    """One engine's readings by name, or their reasons."""
    return {
        metric.name: rows.reasons[row][i] if rows.engines.values[i][row] is None else rows.engines.values[i][row]
        for i, metric in enumerate(ENGINE_METRICS)
    }


def test_a_configured_engine_is_asked_and_told(stub: Exporter) -> None:
    """Its row is there from the first tick; its readings as soon as it has answered."""
    collector = EngineCollector([f"vllm=http://127.0.0.1:{stub.port}"])
    clock = Clock()
    first = collector.collect(clock.now)
    rows = settled(collector, clock.now)
    collector.close()

    assert first.engines.name == rows.engines.name == [f"http://127.0.0.1:{stub.port}"]
    assert named(first)["requests_running"] == "no_previous"
    assert (rows.engines.kind, rows.engines.model, rows.engines.pid) == (["vllm"], ["GLM-4.5"], [None])
    assert named(rows)["requests_running"] == 8
    assert len(rows.engines.values) == len(ENGINE_METRICS)
    assert stub.asked[0][0] == "/metrics"


def test_it_is_asked_every_few_seconds_and_means_are_those_between(stub: Exporter) -> None:
    """Ticks in between repeat the last readings and ask nothing."""
    collector = EngineCollector([f"vllm={stub.url}"])
    clock = Clock()
    clock.tick(collector)
    for _ in range(3):
        clock.tick(collector)
    assert len(stub.asked) == 1
    name, labels = "vllm:time_to_first_token_seconds", 'engine="0",model_name="zai-org/GLM-4.5"'
    body = answer("vllm-v1.prom")
    for line, more in (
        (f'{name}_bucket{{le="+Inf",{labels}}} 10.0', 14),
        (f"{name}_count{{{labels}}} 10.0", 14),
        (f"{name}_sum{{{labels}}} 12.5", 14.5),
    ):
        assert line in body
        body = body.replace(line, f"{line.rpartition(' ')[0]} {more}")
    stub.body = body.encode()
    rows = clock.tick(collector, engines.PERIOD_S)
    collector.close()

    assert len(stub.asked) == 2
    assert named(rows)["ttft_mean_s"] == pytest.approx(0.5)
    assert named(rows)["ttft_p95_s"] == "out_of_range"
    assert named(rows)["e2e_mean_s"] == "not_found"


def test_an_engine_that_ceases_to_answer_is_told_once_and_its_row_stays(stub: Exporter) -> None:
    """Every reading is absent with the failure's reason; so is its return told."""
    collector = EngineCollector([f"vllm={stub.url}"])
    clock = Clock()
    clock.tick(collector)
    assert collector.events() == []
    stub.status = 500
    for _ in range(3):
        rows = clock.tick(collector, engines.PERIOD_S)
    assert set(named(rows).values()) == {"driver_error"}
    assert rows.engines.model == ["GLM-4.5"]
    assert [event.text for event in collector.events()] == [
        f"The vllm engine is not read: {stub.url} answers with HTTP status 500."
    ]
    stub.status = 200
    rows = clock.tick(collector, engines.PERIOD_S)
    collector.close()

    assert named(rows)["requests_running"] == 8
    assert [event.text for event in collector.events()] == [f"The vllm engine at http://127.0.0.1:{stub.port} answers."]


def test_an_engine_that_hangs_costs_itself_alone(stub: Exporter) -> None:
    """No tick waits; old readings are not repeated for ever; the other engine is read as ever."""
    with exporter() as other:
        other.serve("sglang.prom")
        collector = EngineCollector([f"vllm={stub.url}", f"sglang={other.url}"])
        clock = Clock()
        clock.tick(collector)
        stub.hold.clear()
        clock.now += engines.PERIOD_S
        began = time.monotonic()
        rows = collector.collect(clock.now)
        assert time.monotonic() - began < 1
        assert named(rows, 0)["requests_running"] == 8
        rows = collector.collect(clock.now + engines.MAX_AGE_S)
        assert set(named(rows, 0).values()) == {"timeout"}
        while len(other.asked) < 2:
            time.sleep(0.005)
        stub.hold.set()
        rows = settled(collector, clock.now)
        collector.close()

    assert named(rows, 1)["requests_running"] == 162


def test_an_engine_that_has_not_answered_yet_is_no_event() -> None:
    """It may be loading its model for minutes."""
    collector = EngineCollector([f"vllm=http://127.0.0.1:{free_port()}/metrics"])
    clock = Clock()
    for _ in range(3):
        rows = clock.tick(collector, engines.PERIOD_S)
    collector.close()

    assert set(named(rows).values()) == {"not_found"}
    assert collector.events() == []


@pytest.mark.parametrize(("body", "why"), [(b"[]", "unsupported"), (b"process_cpu_seconds_total 1\n", "unsupported")])
def test_somebody_elses_answer_is_not_an_engines(stub: Exporter, body: bytes, why: str) -> None:
    """JSON, or a server of another kind."""
    stub.body = body
    collector = EngineCollector([f"sglang={stub.url}"])
    rows = Clock().tick(collector)
    collector.close()

    assert set(named(rows).values()) == {why}


def test_trtllm_serve_is_asked_where_its_metrics_are(stub: Exporter) -> None:
    """/metrics of trtllm-serve is JSON; the other path is tried first, and kept once it answered."""
    stub.serve("trtllm-serve.prom")
    collector = EngineCollector([f"trtllm=http://127.0.0.1:{stub.port}"])
    clock = Clock()
    rows = clock.tick(collector)
    clock.tick(collector, engines.PERIOD_S)
    collector.close()

    assert named(rows)["requests_running"] == 4
    assert [path for path, _ in stub.asked] == ["/prometheus/metrics", "/prometheus/metrics"]


def test_names_hold_neither_credentials_nor_queries(stub: Exporter) -> None:
    """A name goes to the server and is shown to all who may look; an unusual path tells two engines of one port apart."""
    collector = EngineCollector(
        [f"vllm=http://me:secret@127.0.0.1:{stub.port}/a/metrics?key=hidden", f"vllm=http://127.0.0.1:{stub.port}"]
    )
    rows = Clock().tick(collector)
    collector.close()

    assert rows.engines.name == [f"http://127.0.0.1:{stub.port}/a/metrics", f"http://127.0.0.1:{stub.port}"]


def test_a_path_that_no_server_takes_as_a_name_is_left_out() -> None:
    """A batch must not be refused for it."""
    collector = EngineCollector(
        [f"vllm=http://127.0.0.1:{free_port()}/a!/(b)/metrics", f"vllm=http://127.0.0.1:{free_port()}/" + "x" * 300]
    )
    rows = collector.collect(0.0)
    settled(collector, 0.0)
    collector.close()

    assert [name.count("/") for name in rows.engines.name] == [2, 2]


def process(proc: Path, pid: int, port: int) -> Path:
    """A vLLM process of a /proc of our own."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "cmdline").write_bytes(f"vllm\0serve\0m\0--port\0{port}\0".encode())
    return folder


def test_an_engine_is_found_by_its_process_and_forgotten_with_it(stub: Exporter, tmp_path: Path) -> None:
    """Its pid is told; once the process is gone and nobody answers, so is the row, without an event."""
    folder = process(tmp_path, 77, stub.port)
    collector = EngineCollector((), Search(tmp_path), tmp_path)
    clock = Clock()
    clock.tick(collector)
    rows = clock.tick(collector)
    assert (rows.engines.pid, rows.engines.kind) == ([77], ["vllm"])
    assert named(rows)["requests_running"] == 8
    (folder / "cmdline").unlink()
    folder.rmdir()
    stub.status = 500
    clock.tick(collector, engines.PERIOD_S)
    rows = clock.tick(collector)
    collector.close()

    assert rows.engines.name == []
    assert rows.engines.values == []
    assert collector.events() == []


def silent_ports(count: int) -> list[int]:
    """Ports of loopback where nobody listens, each another."""
    with contextlib.ExitStack() as held:
        found = []
        for _ in range(count):
            sock = held.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))
            found.append(sock.getsockname()[1])
    return found


def test_programs_that_answer_nothing_do_not_shut_an_engine_out(
    stub: Exporter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Anybody may start forty programs called `vllm`: that some are left out is said once, and each has its turn."""
    for pid, port in enumerate(silent_ports(40), 100):
        process(tmp_path, pid, port)
    process(tmp_path, 900, stub.port)
    collector = EngineCollector((), Search(tmp_path), tmp_path)
    clock = Clock()
    clock.tick(collector)
    rows = clock.tick(collector)
    assert len(rows.engines.name) == engines.MAX_ENGINES == 32
    assert 900 not in rows.engines.pid
    assert collector.trouble.startswith("an agent asks 32 serving engines, and 9 more are left out now (http://127.0.0.1:")
    seen = set(rows.engines.pid)
    for _ in range(4):
        clock.tick(collector, SEARCH_S + 10)
        rows = clock.tick(collector)
        seen |= set(rows.engines.pid)
        assert len(rows.engines.name) == 32
        assert named(rows, rows.engines.pid.index(900))["requests_running"] == 8  # who answers keeps its place
    collector.close()

    assert seen == {*range(100, 140), 900}
    assert len([record for record in caplog.records if "left out" in record.message]) == 1


def test_thirty_three_configured_engines_are_one_too_many() -> None:
    """It is said which; the settings' own engines give no place up."""
    ports = silent_ports(33)
    collector = EngineCollector([f"vllm=http://127.0.0.1:{port}" for port in ports])
    rows = Clock().tick(collector)
    collector.close()

    assert len(rows.engines.name) == 32
    assert f"1 more are left out now (http://127.0.0.1:{ports[-1]})" in collector.trouble


def test_configured_engines_that_are_left_out_stay_told_of_after_a_search(tmp_path: Path) -> None:
    """The search finds others, or none: the settings still name more than an agent asks, once each."""
    ports = silent_ports(35)
    for pid, port in ((100, ports[33]), (101, ports[34])):  # one of them is found too, and one is not in the settings
        process(tmp_path, pid, port)
    collector = EngineCollector([f"vllm=http://127.0.0.1:{port}" for port in ports[:34]], Search(tmp_path), tmp_path)
    clock = Clock()
    for _ in range(3):
        clock.tick(collector)
    collector.close()

    assert "3 more are left out now" in collector.trouble
    assert all(f"127.0.0.1:{port}" in collector.trouble for port in ports[32:])


def test_an_engine_that_drips_is_a_timeout_and_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps neither its thread nor its row's readings; both its paths together have one deadline."""
    monkeypatch.setattr(asked_engine, "DEADLINE_S", 0.3)
    with dripping(b"HTTP/1.0 200 OK\r\n\r\n", b"# more\n") as where:
        collector = EngineCollector([f"trtllm={where.origin}"])
        rows = Clock().tick(collector)
        assert not collector.is_busy
        collector.close()

    assert set(named(rows).values()) == {"timeout"}


def test_engines_that_answer_with_megabytes_leave_room_for_one_that_does_not(
    stub: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What all answers take together is bounded; an engine of usual size is read whatever the others do."""
    monkeypatch.setattr(engines, "_ROOM", (2_000_000, 1_500_000))
    with contextlib.ExitStack() as running:
        large = [running.enter_context(exporter()) for _ in range(4)]
        count = iter(range(10_000_000))
        for one in large:  # each engine's series are new with every answer
            one.body = lambda: "".join(
                f'vllm:num_requests_running{{model_name="{next(count)}"}} 1\n' for _ in range(1200)
            ).encode()
        collector = EngineCollector([f"vllm={one.url}" for one in (*large, stub)])
        clock = Clock()
        for _ in range(4):
            rows = clock.tick(collector, engines.PERIOD_S)
            assert named(rows, 4)["requests_running"] == 8
        assert "out_of_range" in {named(rows, row)["requests_running"] for row in range(4)}
        held = sum(max(0, asked._holding.bytes - OWN_BYTES) for asked in collector._asked.values())
        assert held <= 2_000_000
        collector.close()
    assert collector._room._left == 2_000_000


def test_what_is_configured_wins_over_what_is_found(stub: Exporter, tmp_path: Path) -> None:
    """One row, with the process's pid."""
    process(tmp_path, 77, stub.port)
    collector = EngineCollector([f"vllm=http://127.0.0.1:{stub.port}"], Search(tmp_path), tmp_path)
    clock = Clock()
    clock.tick(collector)
    rows = clock.tick(collector)
    collector.close()

    assert rows.engines.pid == [77]


def test_a_defect_in_reading_an_answer_is_logged_once_until_it_is_over(
    stub: Exporter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Readings are absent meanwhile, and it is asked again with every round."""

    def break_down(*answers: object) -> None:
        raise ArithmeticError("of a defect")

    read = engine_readings.readings
    monkeypatch.setattr("agents.asked_engine.readings", break_down)
    collector = EngineCollector([f"vllm=http://127.0.0.1:{stub.port}"])
    clock = Clock()
    broken = [clock.tick(collector, engines.PERIOD_S) for _ in range(3)]
    monkeypatch.setattr("agents.asked_engine.readings", read)
    rows = clock.tick(collector, engines.PERIOD_S)
    collector.close()

    assert [set(rows.reasons[0]) for rows in broken] == [{"driver_error"}] * 3
    assert named(rows)["requests_running"] == 8
    assert sum(record.exc_info is not None for record in caplog.records) == 1


async def test_a_machines_tick_has_its_engines(stub: Exporter) -> None:
    """In the order that the hello names."""
    config = load(None, {"engines": [f"vllm={stub.url}"], "find_engines": False})
    machine = Machine(None, engines=engines.of(config))
    hello = machine.inventory.hello("n", "b", "1", 1.0)
    tick = await machine.collect()
    await machine.close()

    assert hello.engine_metrics == ENGINE == tuple(metric.name for metric in ENGINE_METRICS)
    assert tick.engines.name == [f"http://127.0.0.1:{stub.port}"]
    assert len(tick.engines.values) == len(ENGINE)
