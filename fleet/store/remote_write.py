"""Prometheus remote write: columns of rows to protobuf `WriteRequest`s, packed with snappy.

The message is small and fixed (https://prometheus.io/docs/specs/remote_write_spec/), and a fleet's ten seconds are hundreds of
thousands of series: a sample's 18 bytes are laid out by numpy for all rows at once, so that only a series costs Python.

    WriteRequest { repeated TimeSeries timeseries = 1; }
    TimeSeries { repeated Label labels = 1; repeated Sample samples = 2; }
    Label { string name = 1; string value = 2; }    Sample { double value = 1; int64 timestamp = 2; }
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

HEADERS: Final = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
REQUEST_BYTES: Final = 8 << 20
"""Of one request before it is packed: VictoriaMetrics takes 32 MiB unless told otherwise."""

_LOW_MS: Final = 1 << 35
_HIGH_MS: Final = 1 << 42
"""Times in ms whose varint has six bytes: 1971 to 2109."""
_SAMPLE: Final = np.dtype([("head", "S3"), ("value", "<f8"), ("tag", "u1"), ("time", "u1", (6,))])


def samples(at_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    """One `samples` field of a TimeSeries for each time, without its value; ValueError for a time outside 1971 to 2109."""
    if len(at_ms) and not (int(at_ms.min()) >= _LOW_MS and int(at_ms.max()) < _HIGH_MS):
        raise ValueError("a time is not between 1971 and 2109")
    made = np.empty(len(at_ms), _SAMPLE)
    made["head"] = b"\x12\x10\x09"  # field 2 of 16 bytes: field 1, a double
    made["tag"] = 0x10
    for byte in range(6):
        made["time"][:, byte] = ((at_ms >> (7 * byte)) & 0x7F) | (0x80 if byte < 5 else 0)
    return made


def label_bytes(labels: Mapping[str, str]) -> bytes:
    """The `labels` fields of a TimeSeries; names in order, as receivers want them. An empty value is no label."""
    fields = []
    for name, value in sorted(labels.items()):
        if value:
            words = [text.encode() for text in (name, value)]
            inside = b"".join(bytes([0x0A + 8 * i]) + varint(len(word)) + word for i, word in enumerate(words))
            fields.append(b"\x0a" + varint(len(inside)) + inside)
    return b"".join(fields)


def series(labels: bytes, told: bytes) -> bytes:
    """A `timeseries` field from the bytes of its labels and samples."""
    return series_head(len(labels) + len(told)) + labels + told


@lru_cache(maxsize=4096)
def series_head(size: int) -> bytes:
    """What comes before the labels and samples of a `timeseries` field: its number and their length."""
    return b"\x0a" + varint(size)


def requests(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The bodies that carry these pieces of `timeseries` fields, each of about REQUEST_BYTES before packing."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= REQUEST_BYTES:
            yield _packed(waiting)
            waiting, size = [], 0
    if waiting:
        yield _packed(waiting)


def varint(number: int) -> bytes:
    """A whole number as protobuf writes it."""
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def _packed(parts: list[bytes]) -> bytes:
    from cramjam import snappy  # 5 MB that only who writes to a server pays

    return bytes(snappy.compress_raw(b"".join(parts)))
