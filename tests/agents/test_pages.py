"""Pages over HTTP: two paths, two methods, and bounds for everything that a stranger may send."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus

import pytest

from agents import pages
from agents.pages import Answer, Pages


def metrics() -> Answer:
    """A page."""
    return Answer(HTTPStatus.OK, "text/plain; version=0.0.4", "a 1\n")


def broken() -> Answer:
    """A page that cannot be made."""
    raise ValueError("no")


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The port of a server on loopback."""
    server = Pages({"/metrics": metrics, "/broken": broken})
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.close()


async def ask(port: int, request: bytes) -> tuple[int, str, str]:
    """Status, head and body of the answer to raw bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = (await asyncio.wait_for(reader.read(), 10)).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), head, body


async def test_get_has_the_page_and_head_has_its_head_alone() -> None:
    """The length is that of the page in both."""
    async with serving() as port:
        status, head, body = await ask(port, b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (status, body) == (200, "a 1\n")
        assert "Content-Type: text/plain; version=0.0.4" in head
        status, head, body = await ask(port, b"HEAD /metrics HTTP/1.0\r\n\r\n")
        assert (status, body) == (200, "")
        assert "Content-Length: 4" in head


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET /etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"GET /../metrics HTTP/1.1\r\n\r\n", 404),
        (b"GET /broken HTTP/1.1\r\n\r\n", 500),
        (b"hello\r\n\r\n", 400),
        (b"GET /metrics SIP/2.0\r\n\r\n", 400),
        (b"\xff\xfe\x00\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
    ],
)
async def test_all_else_is_refused_in_a_sentence(request_: bytes, status: int) -> None:
    """And the next request is answered as ever."""
    async with serving() as port:
        assert (await ask(port, request_))[0] == status
        assert (await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n"))[0] == 200


async def test_a_request_that_never_ends_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """After REQUEST_S; those behind it are not held up meanwhile."""
    monkeypatch.setattr(pages, "REQUEST_S", 0.2)
    async with serving() as port:
        slow = asyncio.create_task(ask(port, b"GET /metrics HTTP/1.1\r\n"))
        assert (await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n"))[0] == 200
        assert (await slow)[0] == 408


async def test_more_connections_than_the_bound_are_answered_503(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever holds connections open takes no memory without end."""
    monkeypatch.setattr(pages, "CONNECTIONS", 2)
    async with serving() as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert (await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n"))[0] == 503
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        for _ in range(100):
            await asyncio.sleep(0.02)
            status, _, _ = await ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
            if status == 200:
                break
        assert status == 200


async def test_a_crowd_is_served_as_far_as_there_are_places() -> None:
    """Those that are turned away do not turn away the others: the bound's number of scrapes are answered at the least."""
    async with serving() as port:
        asked = b"GET /metrics HTTP/1.1\r\n\r\n"
        statuses = [status for status, _, _ in await asyncio.gather(*(ask(port, asked) for _ in range(40)))]

    assert statuses.count(200) >= pages.CONNECTIONS
    assert set(statuses) <= {200, 503}
