"""The scanner: what is whole, broken off, broken within, and what is no trace at all."""

import gzip
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from advisor.profiles import stream
from advisor.profiles.stream import ProfileError, Trace

EVENTS = [
    {"ph": "X", "name": f'größe "{number}" \\ \n', "ts": number + 0.125, "args": {"x": [[1], {"y": None}]}} for number in range(7)
]
WHOLE = json.dumps({"schemaVersion": 1, "traceEvents": EVENTS, "distributedInfo": {"rank": 3}}, ensure_ascii=False, indent=1)

Write = Callable[[bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes bytes to a file and gives its path."""

    def write(data: bytes) -> Path:
        path = tmp_path / "trace.json"
        path.write_bytes(data)
        return path

    return write


def read(path: Path) -> tuple[list[dict[str, Any]], Trace]:
    """All events, and the trace that they came from."""
    trace = Trace(path)
    return list(trace.events()), trace


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
def test_it_reads_every_event_wherever_a_chunk_ends(write: Write, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Letters, numbers and escapes may be cut in two; members before and after the events are kept."""
    monkeypatch.setattr(stream, "CHUNK", chunk)

    events, trace = read(write(WHOLE.encode()))

    assert events == EVENTS
    assert trace.metadata == {"distributedInfo": {"rank": 3}}
    assert (trace.ended_early, trace.broken, trace.read_bytes) == (None, 0, len(WHOLE.encode()))


def test_it_reads_gzip_by_its_first_bytes_and_a_bare_list(write: Write) -> None:
    """The name of a file is no evidence; a list of events is a trace too."""
    assert read(write(gzip.compress(WHOLE.encode())))[0] == EVENTS
    assert read(write(json.dumps(EVENTS).encode()))[0] == EVENTS


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_cut_anywhere_gives_what_it_has(write: Write, packed: bool) -> None:
    """At every byte: the events before the cut and that the file ends early, or that there is no trace; nothing else is raised."""
    data = gzip.compress(WHOLE.encode(), mtime=0) if packed else WHOLE.encode()
    most = 0
    for cut in range(len(data) - 1):
        trace = Trace(write(data[:cut]))
        try:
            events = list(trace.events())
        except ProfileError:
            continue
        assert events == EVENTS[: len(events)]
        assert trace.ended_early or (packed and trace.metadata["distributedInfo"])  # what is cut is gzip's own ending
        assert len(events) >= most
        most = len(events)

    assert most == len(EVENTS)


def test_what_is_not_json_within_is_passed_over_and_counted(write: Write) -> None:
    """An unescaped quote spoils its event and no other."""
    text = (
        '{"traceEvents": [{"ph": "X", "name": "a"}, {"ph": "X", "name": "b"b", "args": {"u": 1}}, {"ph": "X", "name": "c"}, 7]}'
    )

    events, trace = read(write(text.encode()))

    assert [event["name"] for event in events] == ["a", "c"]
    assert trace.broken == 1


@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_a_member_that_is_not_json_costs_no_event(write: Write, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Programs add members of their own, unescaped at times; what is read behind them is whole."""
    monkeypatch.setattr(stream, "CHUNK", chunk)
    monkeypatch.setattr(stream, "LARGEST", 300)
    text = '{"note": "say "hello"", "long": "' + "a" * 1000 + '", "traceEvents" : [{"ph": "X"}], "distributedInfo": {"rank": 1}}'

    events, trace = read(write(text.encode()))

    assert events == [{"ph": "X"}]
    assert trace.metadata == {"distributedInfo": {"rank": 1}}
    assert (trace.broken, trace.ended_early) == (1, None)


def test_numbers_as_c_prints_them_cost_no_event(write: Write) -> None:
    """A bandwidth over no time is `inf` in some traces, which no JSON has."""
    text = (
        '{"traceEvents": [{"name": "inf, nan", "args": {"a": inf, "b": -nan, "c": [nan]}}, {"name": "b", "args": {"a": -inf}}]}'
    )

    events, trace = read(write(text.encode()))

    assert [event["name"] for event in events] == ["inf, nan", "b"]
    assert trace.broken == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"PNG\x89\x00", "is not JSON"),
        (b"\x1f\x8bnothing at all", "damaged"),
        (b"{}", "no list named traceEvents"),
        (b'{"recording": 1}', "no list named traceEvents"),
        (b'{"traceEvents": 3}', "no list named traceEvents"),
        (b'{"traceEvents" [1]}', "is not JSON"),
        (b"{1: 2}", "is not JSON"),
        (b'{"a": }', "is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "is not JSON"),
        (b'{"a": ' + b"[" * 100_000, "is not JSON"),
    ],
)
def test_it_says_of_what_is_no_trace_why(write: Write, data: bytes, said: str) -> None:
    """One sentence with the file's name."""
    with pytest.raises(ProfileError, match=said):
        read(write(data))


def test_an_event_nested_too_deep_is_passed_over(write: Write) -> None:
    """A hundred thousand brackets end no program."""
    deep = '{"ph": "X", "args": ' + "[" * 100_000 + "]" * 100_000 + "}"

    events, trace = read(write(f'{{"traceEvents": [{deep}, {{"ph": "X", "name": "b"}}]}}'.encode()))

    assert events == [{"ph": "X", "name": "b"}]
    assert trace.broken == 1


def test_a_gzip_file_that_unpacks_without_end_is_stopped(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """60 MB of blanks from 60 kB, with 8 MB allowed: read to there, and held in a few MB."""
    monkeypatch.setattr(stream, "MAX_BYTES", 8_000_000)
    bomb = write(gzip.compress(b'{"traceEvents": [{"ph": "X"},' + b" " * 60_000_000, 9))
    tracemalloc.start()

    events, trace = read(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert events == [{"ph": "X"}]
    assert trace.ended_early is not None
    assert "GiB" in trace.ended_early
    assert trace.read_bytes < 8_000_000 + 2 * stream.CHUNK
    assert peak < 8 * stream.CHUNK


def test_an_event_without_end_is_held_to_its_largest_size(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """A string that never closes is given up, and what follows it is read."""
    monkeypatch.setattr(stream, "CHUNK", 10_000)
    monkeypatch.setattr(stream, "LARGEST", 40_000)
    text = '{"traceEvents": [{"ph": "X", "name": "' + "a" * 500_000 + '"}, {"ph": "X", "name": "b"}]}'
    path = write(text.encode())
    tracemalloc.start()

    events, trace = read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert events == [{"ph": "X", "name": "b"}]
    assert trace.broken == 1
    assert peak < 400_000
