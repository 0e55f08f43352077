"""Remote write requests, read back by an independent reading of the protobuf wire format."""

import struct
from collections.abc import Iterator

import numpy as np
import pytest
from cramjam import snappy

from fleet.store import remote_write


def parts(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message: number, and a varint, eight bytes or a string of bytes."""
    at = 0
    while at < len(message):
        tag, at = number(message, at)
        if tag & 7 == 0:
            value, at = number(message, at)
            yield tag >> 3, value
        else:
            length, at = (8, at) if tag & 7 == 1 else number(message, at)
            yield tag >> 3, message[at : at + length]
            at += length


def number(message: bytes, at: int) -> tuple[int, int]:
    """A varint and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def read(body: bytes) -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
    """The series of a request: labels, and samples as (ms, value)."""
    found = []
    for _, one in parts(bytes(snappy.decompress_raw(body))):
        labels, samples = {}, []
        for field, inside in parts(_bytes(one)):
            words = dict(parts(_bytes(inside)))
            if field == 1:
                labels[_bytes(words[1]).decode()] = _bytes(words[2]).decode()
            else:
                at = words[2]
                assert isinstance(at, int)
                samples.append((at, struct.unpack("<d", _bytes(words[1]))[0]))
        found.append((labels, samples))
    return found


def _bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def test_series_come_out_as_they_went_in() -> None:
    """Labels in order of name, without empty ones; times in ms and values as exact doubles."""
    at = np.array([1_790_000_000_000, 1_790_000_001_999], dtype=np.int64)
    told = remote_write.samples(at)
    told["value"] = [0.1, 2.0**53]
    labels = remote_write.label_bytes({"pod": "训练", "UUID": "GPU-1", "__name__": "fettle_gpu_power_w", "nothing": ""})
    long = remote_write.label_bytes({"__name__": "x" * 300})
    (body,) = remote_write.requests([remote_write.series(labels, told.tobytes()), remote_write.series(long, told[:1].tobytes())])

    assert read(body) == [
        (
            {"UUID": "GPU-1", "__name__": "fettle_gpu_power_w", "pod": "训练"},
            [(1_790_000_000_000, 0.1), (1_790_000_001_999, 2.0**53)],
        ),
        ({"__name__": "x" * 300}, [(1_790_000_000_000, 0.1)]),
    ]
    assert list(read(body)[0][0]) == ["UUID", "__name__", "pod"]


@pytest.mark.slow
def test_many_series_travel_in_several_requests() -> None:
    """None is larger than what a receiver takes, and nothing is lost between them."""
    told = remote_write.samples(np.full(1000, 1_790_000_000_000, dtype=np.int64))
    told["value"] = 1.0
    fields = [remote_write.series(remote_write.label_bytes({"n": str(n)}), told.tobytes()) for n in range(1000)]
    bodies = list(remote_write.requests(fields))

    assert len(bodies) > 1
    assert [labels["n"] for body in bodies for labels, _ in read(body)] == [str(n) for n in range(1000)]
    assert max(len(snappy.decompress_raw(body)) for body in bodies) < 32 << 20


@pytest.mark.parametrize("at", [0, 1_000_000_000, 4_398_046_511_104])
def test_times_that_do_not_fit_are_refused(at: int) -> None:
    """A time before 1971 or after 2109 is a mistake, never another time."""
    with pytest.raises(ValueError, match="1971"):
        remote_write.samples(np.array([at], dtype=np.int64))
