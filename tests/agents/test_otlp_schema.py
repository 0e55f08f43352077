"""OTLP out against the official schema: every request is an ExportMetricsServiceRequest by OpenTelemetry's own protobuf classes."""

import math
from typing import Any

import pytest
from msgspec.json import encode

from agents import otlp, otlp_protobuf
from agents.loop import NodeLoop
from tests.agents.fake_nvml import FakeNvml
from tests.agents.outputs_of import T, node

pytest.importorskip("opentelemetry.proto", reason="opentelemetry-proto of requirements/dev.txt is not installed")

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric


def parsed(loop: NodeLoop) -> ExportMetricsServiceRequest:
    """The bytes that would be sent, read by the official classes; a field that the schema does not know is an error."""
    last = loop.vitals.last
    assert last is not None
    body = encode(otlp.request([loop.view()], last.at, T - 60, "1.0"))
    message = json_format.Parse(body, ExportMetricsServiceRequest(), ignore_unknown_fields=False)
    assert isinstance(message, ExportMetricsServiceRequest)
    return message


def metrics(message: ExportMetricsServiceRequest) -> dict[str, Metric]:
    """By name."""
    (resource,) = message.resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def words(attributes: Any) -> dict[str, str]:
    """Attributes by key."""
    return {one.key: one.value.string_value for one in attributes}


@pytest.mark.parametrize("board", ["h200-driver-580.json", "h100-mig-driver-550.json"])
async def test_the_binary_form_is_the_same_message(board: str) -> None:
    """Byte for byte what the official classes make of the JSON, but for the order of fields."""
    async with node(FakeNvml(board)) as loop:
        last = loop.vitals.last
        assert last is not None
        body = otlp.request([loop.view()], last.at, T - 60, "1.0")
        message = parsed(loop)

    assert ExportMetricsServiceRequest.FromString(otlp_protobuf.encoded(body)) == message


def test_an_answer_in_binary_tells_how_many_points_were_refused() -> None:
    """And what cannot be read tells of none."""
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = 300
    answer.partial_success.error_message = "too old"

    assert otlp_protobuf.rejected(answer.SerializeToString()) == 300
    assert [otlp_protobuf.rejected(junk) for junk in (b"", b"\x0a", b"\x0a\xff", b"not found", bytes([0xFF] * 12))] == [0] * 5


@pytest.mark.parametrize("board", ["h200-driver-580.json", "h100-mig-driver-550.json", "t4-driver-525.json"])
async def test_every_request_is_a_message_of_the_official_schema(board: str) -> None:
    """Numbers are 64-bit integers or finite doubles, times lie in order, sums say what they are, no series stands twice."""
    async with node(FakeNvml(board)) as loop:
        message = parsed(loop)
    (resource,) = message.resource_metrics
    found = metrics(message)

    assert words(resource.resource.attributes)["host.name"] == "n"
    assert len(found) == len(resource.scope_metrics[0].metrics) > 50
    for metric in found.values():
        kind = metric.WhichOneof("data")
        assert kind in ("gauge", "sum")
        points = metric.sum.data_points if kind == "sum" else metric.gauge.data_points
        if kind == "sum":
            assert metric.sum.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
            assert metric.sum.is_monotonic
        assert len({point.SerializeToString() for point in points}) == len(points) > 0
        for point in points:
            value = point.WhichOneof("value")
            assert value in ("as_int", "as_double")
            assert value == "as_int" or math.isfinite(point.as_double)
            assert point.time_unix_nano == round((T + 1) * 1e9)
            assert (0 < point.start_time_unix_nano < point.time_unix_nano) == (kind == "sum")


async def test_units_and_numbers_are_those_of_the_conventions() -> None:
    """https://opentelemetry.io/docs/specs/semconv/hardware/gpu/: shares of 1, bytes, joules and watts."""
    async with node() as loop:
        found = metrics(parsed(loop))
    utilisation, memory, power = (found[name] for name in ("hw.gpu.utilization", "hw.gpu.memory.usage", "hw.power"))

    assert (utilisation.unit, memory.unit, power.unit, found["hw.energy"].unit) == ("1", "By", "W", "J")
    assert all(0 <= point.as_double <= 1 for point in utilisation.gauge.data_points)
    assert power.gauge.data_points[0].as_double == pytest.approx(142.7)
    assert memory.gauge.data_points[0].as_int > 1 << 30
    assert words(power.gauge.data_points[0].attributes)["hw.type"] == "gpu"
