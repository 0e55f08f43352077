"""One HTTP exchange that is over at its deadline, and takes no more bytes than it may, whatever the other side does.

A socket's own timeout begins anew with every byte that drips in, and http.client forgets the socket as soon as the answer's
headers say that it will be closed: so the socket is kept here, and shut when the time is over.

Headers, chunk sizes and trailers are read by http.client as it likes: a chunk of -1 bytes is all that ever comes to it. So what
comes is counted below it.
"""

import http.client
import io
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Protocol

HEAD_BYTES: Final = 1 << 16
"""Of an answer's status line and headers together, those of all the answers `100 Continue` before it among them."""


class TooLargeError(http.client.HTTPException):
    """An answer has more bytes than it may, or asks for a reading of no bound."""


class Where(Protocol):
    """Who is connected to."""

    @property
    def scheme(self) -> str:
        """`http` or `https`."""

    @property
    def host(self) -> str:
        """A name or an address, without brackets."""

    @property
    def port(self) -> int:
        """From 1 to 65535."""


class _Counted(io.RawIOBase):
    """What `source` gives, until `left` bytes have come; TooLargeError from then on."""

    def __init__(self, source: io.RawIOBase, left: int) -> None:
        self.left = left
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        came = self._source.readinto(buffer)
        self.left -= came or 0
        if self.left < 0:
            raise TooLargeError
        return came

    def readall(self) -> bytes:
        raise TooLargeError  # nobody here asks for all there is: it is what http.client makes of a chunk's negative size

    def close(self) -> None:
        self._source.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer of HEAD_BYTES, and of `body_bytes` as they travel: with chunk sizes, their extensions and trailers."""

    def __init__(self, sock: socket.socket, *args: Any, body_bytes: int, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._body_bytes = body_bytes
        self._counted = _Counted(self.fp.detach(), HEAD_BYTES)
        self.fp = io.BufferedReader(self._counted)

    def begin(self) -> None:
        super().begin()
        self._counted.left = self._body_bytes


@contextmanager
def connected(where: Where, deadline_s: float, body_bytes: int) -> Iterator[http.client.HTTPConnection]:
    """A connection for one exchange, closed with the block; TimeoutError where the block is not through after `deadline_s`.

    TooLargeError where the answer is larger than HEAD_BYTES and, behind its headers, `body_bytes` as they travel. Only the look-up of
    a name takes as long as the system's resolver does.
    """
    ends = time.monotonic() + deadline_s
    sock = _socket(where, ends)
    ended = threading.Event()

    def end() -> None:
        ended.set()
        try:
            socket.socket.shutdown(sock, socket.SHUT_RDWR)  # wakes the thread that reads, or writes
        except OSError:
            return  # it is closed already

    connection = http.client.HTTPConnection(where.host, where.port)
    connection.default_port = 443 if where.scheme == "https" else 80
    connection.sock = sock
    connection.auto_open = 0
    connection.response_class = partial(_Answer, body_bytes=body_bytes)  # type: ignore[assignment]  # it is only called
    timer = threading.Timer(max(0.0, ends - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    try:
        yield connection
    except Exception:
        if not ended.is_set():
            raise
    finally:
        timer.cancel()
        connection.close()
        sock.close()
    if ended.is_set():  # what the block made of the rest that it was cut off from is no answer
        raise TimeoutError


def _socket(where: Where, ends: float) -> socket.socket:
    """A connected socket by monotonic second `ends`: to the first of the host's addresses that takes it."""
    failed: OSError = TimeoutError()
    for family, kind, number, _, address in socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, number)
        try:
            sock.settimeout(_left(ends))
            sock.connect(address)
            if where.scheme == "http":
                return sock
            sock.settimeout(_left(ends))
            return ssl.create_default_context().wrap_socket(sock, server_hostname=where.host)
        except OSError as error:
            failed = error
            sock.close()
            if isinstance(error, ssl.SSLError):
                break
    raise failed


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
