"""`/metrics` and `/healthz` over HTTP, from the agent's own loop: two pages, GET and HEAD, small bounds, no keep-alive."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

CONNECTIONS: Final = 16
"""At the same time; more are answered 503 at once."""
REQUEST_BYTES: Final = 8192
"""Of a request's head; there is no body."""
REQUEST_S: Final = 5.0
"""For a whole request, and for its answer to be taken."""


class Answer(NamedTuple):
    """A page."""

    status: HTTPStatus
    kind: str
    text: str


class Pages:
    """Serves `pages` by their path. Nothing of a request but its method and path is looked at."""

    def __init__(self, pages: dict[str, Callable[[], Answer]]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._served: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port (which one, when `port` is 0). OSError where the address cannot be had."""
        self._server = await asyncio.start_server(self._connected, host, port, limit=REQUEST_BYTES)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Listen no more, and cut what is open."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        is_served = task is not None and len(self._served) < CONNECTIONS  # those that are turned away take no place
        if task is not None and is_served:
            self._served.add(task)
            task.add_done_callback(self._served.discard)
        try:
            await asyncio.wait_for(self._serve(reader, writer, is_served), 2 * REQUEST_S)
        except (OSError, asyncio.TimeoutError, asyncio.CancelledError):  # on Python 3.10 not yet the built-in one
            log.debug("A request ended early.")
        finally:
            writer.transport.abort() if writer.transport.get_write_buffer_size() else writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_served: bool) -> None:
        if not is_served:
            _write(writer, _plain(HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests at once."), True)
        else:
            answer, with_body = await self._answer(reader)
            _write(writer, answer, with_body)
        await writer.drain()

    async def _answer(self, reader: asyncio.StreamReader) -> tuple[Answer, bool]:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S)
        except asyncio.LimitOverrunError:
            return _plain(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The request is too large."), True
        except asyncio.IncompleteReadError:
            return _plain(HTTPStatus.BAD_REQUEST, "The request is not whole."), True
        except asyncio.TimeoutError:
            return _plain(HTTPStatus.REQUEST_TIMEOUT, "The request took too long."), True
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _plain(HTTPStatus.BAD_REQUEST, "This is no HTTP/1 request."), True
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET and HEAD are answered."), True
        page = self._pages.get(path)
        if page is None:
            return _plain(HTTPStatus.NOT_FOUND, f"There is {' and '.join(self._pages)}."), method == "GET"
        try:
            return page(), method == "GET"
        except Exception:
            log.exception("The page %s cannot be made", path)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR, "The page cannot be made; the agent's log says why."), True


def _plain(status: HTTPStatus, sentence: str) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", sentence + "\n")


def _write(writer: asyncio.StreamWriter, answer: Answer, with_body: bool) -> None:
    body = answer.text.encode()
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\nContent-Type: {answer.kind}\r\nContent-Length: {len(body)}\r\n"
    )
    if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
        head += "Allow: GET, HEAD\r\n"
    writer.write(f"{head}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n".encode() + (body if with_body else b""))
