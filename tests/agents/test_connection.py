"""The deadline of an HTTP exchange, against servers on loopback that send as slowly as they like."""

import socket
import threading
import time

import pytest

from agents import scrape
from agents.config import load
from agents.doctor_server import otlp
from agents.otlp import post
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
