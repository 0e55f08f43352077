"""One HTTP exchange that is over at its deadline, whatever the other side does.

A socket's own timeout begins anew with every byte that drips in, and http.client forgets the socket as soon as the answer's
headers say that it will be closed: so the socket is kept here, and shut when the time is over.
"""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


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


@contextmanager
def connected(where: Where, deadline_s: float) -> Iterator[http.client.HTTPConnection]:
    """A connection for one exchange, closed with the block; TimeoutError where the block is not through after `deadline_s`.

    Only the look-up of a name takes as long as the system's resolver does.
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
