"""The deadline of an HTTP exchange, against servers on loopback that send as slowly as they like."""

import socket
import threading
import time
import tracemalloc

import pytest

from agents import scrape
from agents.config import load
from agents.connection import TooLargeError
from agents.doctor_server import otlp
from agents.otlp import post, reason
from agents.scrape import ScrapeError, target
from tests.agents.dripping import dripping

DEADLINE_S = 0.3


SLOW = {
    "status line": (b"", b"H"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: y\r\n"),
    "body until the connection ends": (b"HTTP/1.0 200 OK\r\n\r\n", b"# more\n"),
    "body of a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"# more\n"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"7\r\n# more\n\r\n"),
    "trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-More: y\r\n"),
    "continues": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "another status": (b"HTTP/1.1 500 No\r\n", b"X-More: y\r\n"),
}


@pytest.mark.parametrize("slow", SLOW)
def test_an_answer_that_drips_is_a_timeout_wherever_it_drips(slow: str) -> None:
    """A byte now and then renews a socket's own timeout, not the deadline; what came until then is no answer."""
    with dripping(*SLOW[slow]) as where:
        began = time.monotonic()
        with pytest.raises(ScrapeError) as caught:
            scrape.fetch(where, DEADLINE_S)
        took = time.monotonic() - began

    assert caught.value.reason == "timeout"
    assert took < 5


@pytest.mark.parametrize("slow", ["headers", "body until the connection ends", "body of a length"])
def test_a_collector_that_drips_is_a_timeout_too(slow: str) -> None:
    """A status of 200 alone is no answer: what was refused stands in the body."""
    with dripping(*SLOW[slow]) as where:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            post(where, b"{}", deadline_s=DEADLINE_S)
        took = time.monotonic() - began

    assert took < 5


_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_MUCH = b"x" * 60_000
FLOODS = {
    "chunk of a negative size": (_CHUNKED + b"-1\r\n", _MUCH),
    "chunk without an end": (_CHUNKED + b"ffffffffffff\r\n", _MUCH),
    "extensions of chunks": (_CHUNKED, b"1;x=" + _MUCH + b"\r\n1\r\n"),
    "trailers": (_CHUNKED + b"0\r\n", b"X-More: " + _MUCH + b"\r\n"),
    "headers": (b"HTTP/1.1 200 OK\r\n", b"X-More: " + _MUCH + b"\r\n"),
    "continues": (b"", b"HTTP/1.1 100 Continue\r\nX-More: " + _MUCH + b"\r\n\r\n"),
    "body of a negative length": (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", _MUCH),
    "body of an enormous length": (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", _MUCH),
    "body until the connection ends": (b"HTTP/1.0 200 OK\r\n\r\n", _MUCH),
}


@pytest.mark.parametrize("flood", FLOODS)
def test_an_answer_of_too_many_bytes_is_left_wherever_they_stand(flood: str) -> None:
    """What is not of the body is counted too, and never held: a chunk of -1 bytes would be all that ever comes."""
    with dripping(*FLOODS[flood], pause_s=0.002) as where:
        tracemalloc.start()
        with pytest.raises(ScrapeError) as caught:
            scrape.fetch(where, 5, max_bytes=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert caught.value.reason == "out_of_range"
    assert peak < 4_000_000


@pytest.mark.parametrize("flood", ["chunk of a negative size", "headers", "continues"])
def test_a_collector_that_answers_without_end_is_said_to(flood: str) -> None:
    """The first bytes of a body that is merely long are taken, whatever else of the answer is too large ends it."""
    with dripping(*FLOODS[flood], pause_s=0.002) as where, pytest.raises(TooLargeError) as caught:
        post(where, b"{}", deadline_s=5)

    assert reason(caught.value) == "its answer is larger than it may be"


def test_small_chunks_of_a_large_answer_are_taken() -> None:
    """The room beside the body holds the sizes of chunks that are a line each, as honest exporters send them."""
    line = b'power{gpu="0",UUID="GPU-0"} 100.25\n'
    count = 950_000 // len(line)
    body = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for _ in range(count)) + b"0\r\n\r\n"
    with dripping(_CHUNKED + body, b"") as where:
        assert scrape.fetch(where, 10, max_bytes=1_000_000) == line * count


def test_the_doctor_says_that_a_collector_drips(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not wait with it, and the sentence says what is wrong."""
    monkeypatch.setattr("agents.otlp.DEADLINE_S", DEADLINE_S)
    with dripping(*SLOW["body of a length"]) as where:
        [(name, level, text, remedy)] = otlp(load(None, {"otlp": where.origin}))

    assert (name, level) == ("otlp", "wrong")
    assert text.endswith("no answer within 0.3 s")
    assert remedy


def test_who_takes_a_request_too_slowly_is_a_timeout() -> None:
    """A request is not written for longer than the deadline either."""
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        where = target(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(TimeoutError):
            post(where, b"x" * 50_000_000, deadline_s=DEADLINE_S)
    finally:
        listener.close()


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n", b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\npower 61"])
def test_an_answer_without_a_length_that_ends_within_a_line_is_not_whole(head: bytes) -> None:
    """The first digits of a number are another number."""
    listener = socket.create_server(("127.0.0.1", 0))

    def cut() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(head)

    thread = threading.Thread(target=cut, daemon=True)
    thread.start()
    with pytest.raises(ScrapeError) as caught:
        scrape.fetch(target(f"http://127.0.0.1:{listener.getsockname()[1]}"), 5)
    thread.join(10)
    listener.close()

    assert caught.value.reason == "driver_error"
    assert "too early" in str(caught.value)
