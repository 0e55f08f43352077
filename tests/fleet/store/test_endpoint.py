"""Exchanges with servers that answer without end: each is over in time, and says why."""

import threading
from collections.abc import Callable

import pytest

from fleet.store import exchange
from fleet.store.endpoint import ERROR_BYTES, Access, Endpoint, PassingError
from fleet.store.series import StoreError
from tests.fleet.store.dripping import Dripping, dripping

PATIENCE_S = 30
"""Until an exchange counts as one without end."""
OK = b"HTTP/1.1 200 OK\r\n"
FAILED = b"HTTP/1.1 500 Broken\r\n"
LONG = b"Content-Length: 1000000000\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


def endpoint(server: Dripping, silence_s: float = 0.2) -> Endpoint:
    """The server, asked with little patience."""
    return Endpoint(server.url, Access(read_s=silence_s), "The receiver", "FETTLE_FORWARD")


def outcome(call: Callable[[], object]) -> object:
    """What the call gives or raises; it fails here where there is none."""
    got: list[object] = []

    def run() -> None:
        try:
            got.append(call())
        except Exception as error:
            got.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)

    assert got, "the exchange does not end"
    return got[0]


@pytest.mark.parametrize(
    ("head", "drop"),
    [
        (b"", b"H"),
        (OK, b"X"),
        (OK + LONG, b"x"),
        (OK + b"Connection: close\r\n\r\n", b"x"),
        (OK + CHUNKED, b"0"),
        (OK + CHUNKED, b"1\r\nx\r\n"),
        (OK + CHUNKED + b"0\r\n", b"X: y\r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (FAILED + LONG, b"x"),
    ],
    ids=["status", "header", "body", "until-closed", "chunk-size", "chunks", "trailers", "interim", "error"],
)
def test_an_answer_that_drips_is_broken_off(head: bytes, drop: bytes) -> None:
    """Each byte comes before the silence is too long, and the answer never ends; to a write and to a question, which is asked twice at most."""
    with dripping(head, drop) as server:
        one = endpoint(server)
        told = [outcome(lambda: one.send("", b"x", {})), outcome(lambda: one.ask("/q", {}))]

        assert server.asked == 3
    for error in told:
        assert isinstance(error, PassingError)
        assert "does not answer in time" in str(error)


def test_of_an_error_without_end_the_beginning_is_read() -> None:
    """It says what it says, within what an error may have."""
    with dripping(FAILED + CHUNKED, CHUNK, pause_s=0) as server:
        error = outcome(lambda: endpoint(server, silence_s=PATIENCE_S).send("", b"x", {}))

    assert isinstance(error, PassingError)
    assert "(HTTP 500)" in str(error)
    assert "xxx" in str(error)


def test_a_write_that_was_taken_is_taken_however_much_is_said_to_it() -> None:
    """The status says so; the rest is not read."""
    with dripping(OK + CHUNKED, CHUNK, pause_s=0) as server:
        assert outcome(lambda: endpoint(server, silence_s=PATIENCE_S).send("", b"x", {})) is None


def test_an_answer_of_more_than_was_sensible_is_refused() -> None:
    """It is asked for once: it would be as large again."""
    with dripping(OK + CHUNKED, CHUNK, pause_s=0) as server:
        error = outcome(lambda: endpoint(server, silence_s=PATIENCE_S).get("/metrics", most=1_000_000))

        assert server.asked == 1
    assert isinstance(error, StoreError)
    assert "answers with more than 1 MB" in str(error)


def test_an_answer_that_comes_along_may_take_longer_than_a_small_one() -> None:
    """Three seconds with two of patience: what has come buys the rest of the time."""
    with dripping(OK + b"Content-Length: 1200000\r\n\r\n", b"x" * 20_000, pause_s=0.05, times=60) as server:
        told = outcome(lambda: endpoint(server, silence_s=1.0).get("/export"))

    assert told == b"x" * 1_200_000


def test_even_so_no_answer_takes_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a bound, which here is as short as that of a small one."""
    monkeypatch.setattr(exchange, "MOST_SILENCES", exchange.SILENCES)
    with dripping(OK + CHUNKED, CHUNK) as server:
        error = outcome(lambda: endpoint(server).ask("/export", {}))

    assert isinstance(error, PassingError)
    assert "does not answer in time" in str(error)


def test_a_connection_is_kept_for_the_next_exchange() -> None:
    """One that was read to its end: after answers and errors alike, and none is lost to the pool after those that were broken off."""
    with dripping(FAILED + b"Content-Length: 4\r\n\r\n", b"body", pause_s=0, times=1) as server:
        one = endpoint(server, silence_s=PATIENCE_S)
        told = [outcome(lambda: one.send("", b"x", {})) for _ in range(20)]

        assert server.connections == 1
        assert all(isinstance(error, PassingError) and "It says: body" in str(error) for error in told)
        server.head = FAILED + CHUNKED
        server.drop, server.times = b"x" * ERROR_BYTES, None
        broken = [outcome(lambda: one.send("", b"x", {})) for _ in range(20)]

    assert all(isinstance(error, PassingError) for error in broken)
