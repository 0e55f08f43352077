"""Metrics by OTLP/HTTP (ExportMetricsServiceRequest) in JSON, or in protobuf where no JSON is taken, every EVERY_S seconds, to a collector.

Names follow OpenTelemetry's semantic conventions for hardware where those have one (`hw.gpu.*`, `hw.power`, `hw.energy`, `hw.temperature`,
`hw.errors`: https://opentelemetry.io/docs/specs/semconv/hardware/gpu/), else `fettle.SCOPE.NAME`.
"""

import http.client
import json
import logging
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from msgspec import Raw
from msgspec.json import encode

from agents import otlp_protobuf
from agents.connection import TooLargeError, connected
from agents.scrape import Target
from agents.source import ENGINE, GPU, HOST
from agents.vitals import STALE_S, LastTick, NodeView
from agents.worker import Worker
from wire.messages import Cell, GpuFacts
from wire.metrics import BY_KEY, Metric

log = logging.getLogger(__name__)

EVERY_S: Final = 10.0
DEADLINE_S: Final = 5.0
"""For a whole request and its answer."""
ANSWER_BYTES: Final = 1 << 16
"""Of an answer, what is read; its first few tell what was refused."""
PATH: Final = "/v1/metrics"
NO_JSON: Final = (400, 406, 415)
"""What collectors answer that take protobuf alone, as VictoriaMetrics does."""
JSON: Final = "application/json"
_CUMULATIVE: Final = 2  # AGGREGATION_TEMPORALITY_CUMULATIVE
_UNITS: Final = {
    "percent": "%", "ratio": "1", "bytes": "By", "bytes_per_second": "By/s", "celsius": "Cel", "watts": "W", "joules": "J",
    "megahertz": "MHz", "seconds": "s", "per_second": "1/s", "code": "1", "bits": "1", "flag": "1", "number": "1", "cores": "{core}",
}  # fmt: skip


class _Semantic(NamedTuple):
    """A name of the conventions, the factor to its unit, and the attributes that it asks for."""

    name: str
    unit: str
    scale: float = 1
    attributes: tuple[tuple[str, str], ...] = ()


_SEMANTIC: Final = {
    "gpu_util_pct": _Semantic("hw.gpu.utilization", "1", 0.01, (("hw.gpu.task", "general"),)),
    "nvenc_util_pct": _Semantic("hw.gpu.utilization", "1", 0.01, (("hw.gpu.task", "encoder"),)),
    "nvdec_util_pct": _Semantic("hw.gpu.utilization", "1", 0.01, (("hw.gpu.task", "decoder"),)),
    "mem_used_bytes": _Semantic("hw.gpu.memory.usage", "By"),
    "mem_total_bytes": _Semantic("hw.gpu.memory.limit", "By"),
    "power_w": _Semantic("hw.power", "W"),
    "energy_j_total": _Semantic("hw.energy", "J"),
    "temperature_c": _Semantic("hw.temperature", "Cel", 1, (("hw.sensor_location", "gpu"),)),
    "memory_temperature_c": _Semantic("hw.temperature", "Cel", 1, (("hw.sensor_location", "memory"),)),
    "ecc_corrected_volatile_total": _Semantic("hw.errors", "{error}", 1, (("error.type", "corrected"),)),
    "ecc_uncorrected_volatile_total": _Semantic("hw.errors", "{error}", 1, (("error.type", "uncorrected"),)),
}


class _Points:
    """Data points by metric, so that one metric stands once in a request."""

    def __init__(self, t: float, since: float) -> None:
        self._metrics: dict[str, dict[str, Any]] = {}
        self._t, self._since = _nanoseconds(t), _nanoseconds(since)

    def add(self, metric: Metric, cell: Cell, name: str, unit: str, scale: float, attributes: Raw) -> None:
        if cell is None:
            return
        point: dict[str, Any] = {"attributes": attributes, "timeUnixNano": self._t}
        if isinstance(cell, int) and scale == 1:
            point["asInt"] = str(cell)  # 64-bit integers are strings in JSON
        else:
            point["asDouble"] = cell * scale
        if metric.kind == "counter":
            point["startTimeUnixNano"] = self._since
            shape: dict[str, Any] = {"sum": {"aggregationTemporality": _CUMULATIVE, "isMonotonic": True, "dataPoints": []}}
        else:
            shape = {"gauge": {"dataPoints": []}}
        found = self._metrics.setdefault(name, {"name": name, "description": metric.help, "unit": unit, **shape})
        (found.get("sum") or found["gauge"])["dataPoints"].append(point)

    def metrics(self) -> list[dict[str, Any]]:
        return list(self._metrics.values())


def request(nodes: Sequence[NodeView], now: float, since: float, version: str) -> dict[str, Any]:
    """The request's body, for msgspec's encoder; no resource for a node whose last tick is older than STALE_S at monotonic second `now`.

    `since` is the UTC second from which counters are told to count.
    """
    found = []
    for view in nodes:
        last = view.vitals.last
        if last is None or now - last.at > STALE_S:
            continue
        points = _Points(last.t, since)
        _gpus(points, last)
        none = _attributes({})
        for name, cell in zip(HOST, last.tick.host, strict=True):
            _own(points, f"host.{name}", cell, none)
        engines = last.tick.engines
        for row, (engine, kind, model) in enumerate(zip(engines.name, engines.kind, engines.model, strict=True)):
            of_engine = _attributes({"fettle.engine": engine, "fettle.engine.kind": kind, "fettle.engine.model": model})
            for name, column in zip(ENGINE, engines.values, strict=True):
                _own(points, f"engine.{name}", column[row], of_engine)
        words = {"service.name": "fettle-agent", "service.version": version, "host.name": view.node}
        scope = {"name": "fettle", "version": version}
        found.append(
            {"resource": {"attributes": _attributes(words)}, "scopeMetrics": [{"scope": scope, "metrics": points.metrics()}]}
        )
    return {"resourceMetrics": found}


def _gpus(points: _Points, last: LastTick) -> None:
    for number, facts in enumerate(last.inventory.gpus):
        words = _of_gpu(facts)
        plain = _attributes(words)
        for name, column in zip(GPU, last.tick.gpu, strict=True):
            semantic = _SEMANTIC.get(name)
            if semantic is None:
                _own(points, f"gpu.{name}", column[number], plain)
                continue
            attributes = _attributes({**words, **dict(semantic.attributes)}) if semantic.attributes else plain
            points.add(BY_KEY[f"gpu.{name}"], column[number], semantic.name, semantic.unit, semantic.scale, attributes)


def _own(points: _Points, key: str, cell: Cell, attributes: Raw) -> None:
    metric = BY_KEY[key]
    points.add(metric, cell, f"fettle.{key}", _UNITS.get(metric.unit, f"{{{metric.unit}}}"), 1, attributes)


def _of_gpu(facts: GpuFacts) -> dict[str, str]:
    words = {
        "hw.id": facts.uuid,
        "hw.type": "gpu",
        "hw.name": f"GPU {facts.index}",
        "hw.model": facts.name,
        "hw.vendor": "NVIDIA",
    }
    if not facts.name.startswith(("NVIDIA", "Tesla", "GeForce", "Quadro")):
        del words["hw.vendor"]
    return words


def _attributes(words: dict[str, str]) -> Raw:
    """In JSON already: all points of a GPU bear the same, and writing them anew is most of a request's cost."""
    return Raw(encode([{"key": key, "value": {"stringValue": word}} for key, word in words.items()]))


def _nanoseconds(t: float) -> str:
    return str(round(t * 1e9))


class Exporter:
    """Sends in a thread of its own: a collector that hangs costs its own metrics alone."""

    def __init__(self, where: Target, nodes: Sequence[NodeView], version: str) -> None:
        self.sent = 0
        self.failed = 0
        self._where = where
        self._nodes = nodes
        self._version = version
        self._worker = Worker("otlp")
        self._due = 0.0
        self._since = time.time()
        self._said = ""
        self._is_binary = False  # protobuf was taken last

    def ticked(self, now: float) -> None:
        """A tick has ended at monotonic second `now`: send when it is time and the request before came back."""
        if now < self._due:
            return
        self._due = now + EVERY_S
        if self._worker.busy:
            self._failure(f"{self._where.origin} has not answered yet; this round is left out.")
            return
        body = request(self._nodes, now, self._since, self._version)
        if body["resourceMetrics"]:
            self._worker.start(lambda: self._send(body), _nothing)

    def close(self) -> None:
        """Let the thread end."""
        self._worker.close()

    def _send(self, body: dict[str, Any]) -> None:
        try:
            status, rejected = self._post(body)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._failure(f"{self._where.origin} cannot be reached: {reason(error)}.")
            return
        if not is_taken(status):
            self._failure(f"{self._where.origin} answers with HTTP status {status}.")
            return
        if rejected:
            self._failure(f"{self._where.origin} took the request but for {rejected} data points.")
            return
        self.sent += 1
        if self._said:
            self._said = ""
            log.info("OTLP: %s takes metrics again; %d requests were lost so far.", self._where.origin, self.failed)

    def _post(self, body: dict[str, Any]) -> tuple[int, int]:
        """Status, and how many data points were refused; in the form that was taken last, in the other one where it is not."""
        if not self._is_binary:
            status, answer = post(self._where, encode(body))
            if status not in NO_JSON:
                return status, _rejected(answer)
        status, answer = post(self._where, otlp_protobuf.encoded(body), otlp_protobuf.KIND)
        self._is_binary = is_taken(status)
        return status, otlp_protobuf.rejected(answer)

    def _failure(self, sentence: str) -> None:
        """Count each, tell once."""
        self.failed += 1
        if not self._said:
            log.warning("OTLP: %s", sentence)
        self._said = sentence


def is_taken(status: int) -> bool:
    """Whether a collector that answers so has the request: 200 by the protocol, 202 or 204 of gateways that pass it on later."""
    return 200 <= status < 300


def post(where: Target, body: bytes, kind: str = JSON, deadline_s: float | None = None) -> tuple[int, bytes]:
    """Status and the first 64 KiB of the answer to one POST of this content type; TimeoutError where it is not there in time."""
    headers = {"Content-Type": kind, "User-Agent": "fettle-agent", "Connection": "close"}
    if where.secret is not None:
        headers["Authorization"] = where.secret
    with connected(where, DEADLINE_S if deadline_s is None else deadline_s, 2 * ANSWER_BYTES) as connection:
        connection.request("POST", where.path, body, headers)
        with connection.getresponse() as response:
            return response.status, response.read(ANSWER_BYTES)


def _rejected(answer: bytes) -> int:
    """Data points that the collector says it refused; 0 where it says nothing that can be."""
    try:
        rejected = int(json.loads(answer)["partialSuccess"]["rejectedDataPoints"])
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
        return 0
    return rejected if 0 <= rejected < 1 << 63 else 0  # an int64 in the protocol


def reason(error: Exception) -> str:
    """Why a request brought nothing, without the address."""
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    if isinstance(error, TimeoutError):
        return f"no answer within {DEADLINE_S:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted here: {error.verify_message}"
    if isinstance(error, TooLargeError):
        return "its answer is larger than it may be"
    return type(error).__name__


def _nothing() -> None:
    pass
