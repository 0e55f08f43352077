"""OTLP out: what a collector is sent is an ExportMetricsServiceRequest in JSON, and one that fails costs its own metrics alone."""

import asyncio
import http.server
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from agents import doctor_server, otlp
from agents.config import AgentConfig
from agents.otlp import Exporter
from agents.scrape import target
from agents.vitals import NodeView
from tests.agents.outputs_of import T, node
from tests.answering import answering


class Collector:
    """A receiver on loopback that keeps what it was sent."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, str, Any]] = []  # path, content type, JSON
        self.status = 200
        self.takes: str | None = None  # the one content type that it takes
        self.answer = b"{}"
        self.hold = threading.Event()
        self.hold.set()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kind = self.headers["Content-Type"]
                takes = kind == outer.takes or outer.takes is None
                outer.bodies.append((self.path, kind, json.loads(body) if kind == "application/json" else body))
                outer.hold.wait(20)
                self.send_response(outer.status if takes else 400)
                self.end_headers()
                self.wfile.write(outer.answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing on stderr."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def collecting(self) -> Iterator["Collector"]:
        """It takes what comes, until the end of the block."""
        with answering(self._server):
            try:
                yield self
            finally:
                self.hold.set()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A running one."""
    with Collector().collecting() as one:
        yield one


def exporter(url: str, views: list[NodeView]) -> Exporter:
    """What the setting `otlp` makes."""
    return Exporter(target(url, otlp.PATH), views, "1.0")


async def until(condition: Any) -> None:
    """Wait for it."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


NUMBER = {"asInt", "asDouble"}


def check_attributes(attributes: Any) -> None:
    """KeyValue messages whose values are text, each key once."""
    assert all(set(one) == {"key", "value"} and set(one["value"]) == {"stringValue"} for one in attributes)
    assert len({one["key"] for one in attributes}) == len(attributes)


def check_metric(metric: Any) -> None:
    """One Metric message of opentelemetry/proto/metrics/v1/metrics.proto in proto3's JSON mapping."""
    assert set(metric) in ({"name", "description", "unit", "gauge"}, {"name", "description", "unit", "sum"})
    data = metric.get("sum") or metric["gauge"]
    if "sum" in metric:
        assert data["aggregationTemporality"] == 2
        assert data["isMonotonic"] is True
    assert data["dataPoints"]
    for point in data["dataPoints"]:
        check_attributes(point["attributes"])
        assert point["timeUnixNano"].isdecimal()
        assert len(set(point) & NUMBER) == 1
        assert set(point) - NUMBER == {"attributes", "timeUnixNano"} | ({"startTimeUnixNano"} if "sum" in metric else set())
        assert isinstance(point["asInt"], str) if "asInt" in point else isinstance(point["asDouble"], float)
    series = [json.dumps(point["attributes"], sort_keys=True) for point in data["dataPoints"]]
    assert len(set(series)) == len(series)


async def test_a_request_has_the_protocols_shape_and_the_conventions_names(collector: Collector) -> None:
    """64-bit integers are text, times nanoseconds, each metric and each of its series stands once."""
    async with node() as loop:
        sending = exporter(collector.url, [loop.view()])
        sending.ticked(time.monotonic())
        await until(lambda: sending.sent)
        sending.close()
    (path, kind, body) = collector.bodies[0]
    (resource,) = body["resourceMetrics"]
    (scope,) = resource["scopeMetrics"]
    by_name = {metric["name"]: metric for metric in scope["metrics"]}

    assert (path, kind) == ("/v1/metrics", "application/json")
    check_attributes(resource["resource"]["attributes"])
    assert {"key": "host.name", "value": {"stringValue": "n"}} in resource["resource"]["attributes"]
    assert len(by_name) == len(scope["metrics"])
    for metric in scope["metrics"]:
        check_metric(metric)
    assert {"hw.gpu.utilization", "hw.gpu.memory.usage", "hw.gpu.memory.limit", "hw.power", "hw.energy", "hw.temperature"} <= set(
        by_name
    )
    assert {"fettle.gpu.sm_active", "fettle.host.mem_used_bytes"} <= set(by_name)
    power = by_name["hw.power"]["gauge"]["dataPoints"]
    assert len(power) == 2
    assert power[0]["timeUnixNano"] == str(int(T + 1) * 1_000_000_000)
    assert {"key": "hw.type", "value": {"stringValue": "gpu"}} in power[0]["attributes"]
    assert all(0 <= point["asDouble"] <= 1 for point in by_name["hw.gpu.utilization"]["gauge"]["dataPoints"])


async def test_a_collector_that_takes_no_json_is_sent_protobuf_from_then_on(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As VictoriaMetrics is, which answers 400 to JSON; one that takes JSON again is found too."""
    monkeypatch.setattr(otlp, "EVERY_S", 0.0)
    async with node() as loop:
        sending = exporter(collector.url, [loop.view()])
        for done, takes in enumerate(
            ("application/x-protobuf", "application/x-protobuf", "application/json", "application/json")
        ):
            collector.takes = takes
            sending.ticked(time.monotonic())
            await until(lambda done=done: sending.sent + sending.failed > done)
            await asyncio.sleep(0.05)  # its thread ends the job
        sending.close()
    kinds = [kind.rpartition("-")[2].rpartition("/")[2] for _, kind, _ in collector.bodies]

    assert kinds == ["json", "protobuf", "protobuf", "protobuf", "json"]
    assert (sending.sent, sending.failed) == (3, 1)


async def test_it_is_sent_every_ten_seconds_and_never_what_is_stale(collector: Collector) -> None:
    """By the clock of the ticks; a node that is not read any more is not told of."""
    async with node() as loop:
        sending = exporter(collector.url, [loop.view()])
        now = time.monotonic()
        for second in (0.0, 1.0, 9.0):
            sending.ticked(now + second)
            await until(lambda: sending.sent == 1)
        sending.ticked(now + 60)
        sending.ticked(now + 120)
        await asyncio.sleep(0.1)
        sending.close()

    assert len(collector.bodies) == 1


@pytest.mark.parametrize("status", [200, 202, 204])
async def test_a_gateway_that_passes_metrics_on_later_has_taken_them(collector: Collector, status: int) -> None:
    """Every answer of 2xx is one; the doctor judges it alike."""
    collector.status, collector.answer = status, b""
    async with node() as loop:
        sending = exporter(collector.url, [loop.view()])
        sending.ticked(time.monotonic())
        await until(lambda: sending.sent + sending.failed == 1)
        sending.close()
    (found,) = await asyncio.to_thread(doctor_server.otlp, AgentConfig(otlp=collector.url))

    assert (sending.sent, found[1]) == (1, "ok")


@pytest.mark.parametrize(
    "rejected",
    [b"[" * 60_000, b"1e999", b"NaN", b"9" * 5000, b"9" * 4000, b"-1", b'"many"', b"[]", b"{}", b"null"],
    ids=lambda odd: odd[:9],
)
async def test_an_odd_answer_of_a_collector_costs_nothing(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, rejected: bytes
) -> None:
    """The next request is sent as usual: what cannot be read as a number of refused points refuses none."""
    monkeypatch.setattr(otlp, "EVERY_S", 0.0)
    collector.answer = b'{"partialSuccess": {"rejectedDataPoints": ' + rejected + b"}}"
    async with node() as loop:
        sending = exporter(collector.url, [loop.view()])
        for done in range(2):
            sending.ticked(time.monotonic())
            await until(lambda done=done: sending.sent > done and not sending._worker.busy)
        sending.close()

    assert (sending.sent, sending.failed, len(collector.bodies)) == (2, 0, 2)


@pytest.mark.parametrize(
    ("status", "answer", "said"),
    [
        (503, b"", "HTTP status 503"),
        (200, b'{"partialSuccess": {"rejectedDataPoints": "4", "errorMessage": "no"}}', "but for 4 data points"),
    ],
)
async def test_what_a_collector_refuses_is_counted_and_told_once(
    collector: Collector, caplog: pytest.LogCaptureFixture, status: int, answer: bytes, said: str
) -> None:
    """And its return is told."""
    caplog.set_level(logging.INFO, "agents.otlp")
    collector.status, collector.answer = status, answer
    async with node() as loop:
        sending = exporter(collector.url, [loop.view()])
        for round_ in range(3):
            sending._due = 0.0
            sending.ticked(time.monotonic())
            await until(lambda: sending.failed == round_ + 1 and not sending._worker.busy)  # noqa: B023 - awaited in its round
        collector.status, collector.answer = 200, b""
        sending._due = 0.0
        sending.ticked(time.monotonic())
        await until(lambda: sending.sent == 1)
        sending.close()
    texts = [record.getMessage() for record in caplog.records]

    assert len(texts) == 2
    assert said in texts[0]
    assert "takes metrics again; 3 requests were lost" in texts[1]


async def test_a_collector_that_hangs_or_is_not_there_holds_up_nothing(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    """The round that finds the one before under way is left out; a password is never told."""
    collector.hold.clear()
    async with node() as loop:
        sending = exporter(collector.url.replace("http://", "http://me:secret@"), [loop.view()])
        sending.ticked(time.monotonic())
        await until(lambda: collector.bodies)
        sending._due = 0.0
        sending.ticked(time.monotonic())
        assert sending.failed == 1
        collector.hold.set()
        await until(lambda: sending.sent)
        sending.close()
        nobody = exporter("http://127.0.0.1:9", [loop.view()])
        nobody.ticked(time.monotonic())
        await until(lambda: nobody.failed)
        nobody.close()

    assert "has not answered yet" in caplog.text
    assert "nobody listens there" in caplog.text
    assert "secret" not in caplog.text
