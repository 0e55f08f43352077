"""An ExportMetricsServiceRequest in protobuf's binary form, for collectors that take no JSON (VictoriaMetrics).

From the request that agents/otlp.py makes in the JSON mapping. Field numbers are those of
https://github.com/open-telemetry/opentelemetry-proto (v1, metrics and common); what is not told in JSON is not told here.
"""

import struct
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Raw
from msgspec.json import decode

from agents.protobuf_fields import BYTES, FIXED64, VARINT, fields

KIND: Final = "application/x-protobuf"


def encoded(request: dict[str, Any]) -> bytes:
    """The same request, in binary."""
    attributes: dict[bytes, bytes] = {}
    return b"".join(_resource(resource, attributes) for resource in request["resourceMetrics"])


def rejected(answer: bytes) -> int:
    """Data points that an ExportMetricsServiceResponse says were refused; 0 where it says nothing that can be read."""
    try:
        for number, value in fields(answer):
            if number == 1 and isinstance(value, bytes):
                return sum(inner for field, inner in fields(value) if field == 1 and isinstance(inner, int))
    except ValueError:
        return 0
    return 0


def _resource(resource: dict[str, Any], known: dict[bytes, bytes]) -> bytes:
    of = _part(1, _attributes(1, resource["resource"]["attributes"], known))
    for scoped in resource["scopeMetrics"]:
        scope = _text(1, scoped["scope"]["name"]) + _text(2, scoped["scope"]["version"])
        of += _part(2, _part(1, scope) + b"".join(_part(2, _metric(metric, known)) for metric in scoped["metrics"]))
    return _part(1, of)


def _metric(metric: dict[str, Any], known: dict[bytes, bytes]) -> bytes:
    head = _text(1, metric["name"]) + _text(2, metric["description"]) + _text(3, metric["unit"])
    if "gauge" in metric:
        return head + _part(5, _points(metric["gauge"]["dataPoints"], known))
    told = metric["sum"]
    how = _tag(2, VARINT) + _varint(told["aggregationTemporality"]) + _tag(3, VARINT) + _varint(told["isMonotonic"])
    return head + _part(7, _points(told["dataPoints"], known) + how)


def _points(points: Iterable[dict[str, Any]], known: dict[bytes, bytes]) -> bytes:
    parts = []
    for point in points:
        content = _attributes(7, point["attributes"], known)
        if "startTimeUnixNano" in point:
            content += _tag(2, FIXED64) + struct.pack("<Q", int(point["startTimeUnixNano"]))
        content += _tag(3, FIXED64) + struct.pack("<Q", int(point["timeUnixNano"]))
        if "asInt" in point:
            content += _tag(6, FIXED64) + struct.pack("<q", int(point["asInt"]))
        else:
            content += _tag(4, FIXED64) + struct.pack("<d", point["asDouble"])
        parts.append(_part(1, content))
    return b"".join(parts)


def _attributes(number: int, told: Raw, known: dict[bytes, bytes]) -> bytes:
    """KeyValue messages under one field number; all points of a GPU bear the same, which are written once."""
    key = b"%d" % number + bytes(told)
    if key not in known:
        pairs = decode(told)
        known[key] = b"".join(
            _part(number, _text(1, pair["key"]) + _part(2, _part(1, pair["value"]["stringValue"].encode()))) for pair in pairs
        )
    return known[key]


def _text(number: int, text: str) -> bytes:
    return _part(number, text.encode()) if text else b""


def _part(number: int, content: bytes) -> bytes:
    return _tag(number, BYTES) + _varint(len(content)) + content


def _tag(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _varint(number: int) -> bytes:
    number = int(number)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
