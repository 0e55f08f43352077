"""Prometheus endpoints, asked within bounds: time, size, no redirects; what fails is one of the registry's reasons.

Calls block, so they belong into a thread of their own: an endpoint that hangs costs that thread's readings alone.
"""

import base64
import http.client
import io
import socket
import ssl
import zlib
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from agents.connection import TooLargeError, connected
from agents.hosts import is_host
from agents.room import Holding, NoRoomError

DEADLINE_S: Final = 4.0
"""For a whole answer, from the connection to the last byte."""
MAX_BYTES: Final = 5_000_000
"""Of one answer, unpacked. A node of 16 cards in 7 slices each, 100 fields of every one with pod labels, is 4 MB."""
_CHUNK: Final = 1 << 16
_REASON_OF_STATUS: Final = {401: "not_permitted", 403: "not_permitted", 404: "not_found", 408: "timeout", 504: "timeout"}


class ScrapeError(Exception):
    """An endpoint brought nothing; `reason` is one of wire.metrics.REASONS. The message holds no credentials."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def hold(holding: Holding, more: int) -> None:
    """Hold so many bytes more; ScrapeError where there is no room."""
    try:
        holding.grow(more)
    except NoRoomError as error:
        raise ScrapeError("out_of_range", str(error)) from None


class Target(NamedTuple):
    """Where to ask. `secret` is the value of the Authorization header, or None; it is never printed."""

    scheme: str
    host: str
    port: int
    path: str
    secret: str | None = None

    @property
    def origin(self) -> str:
        """`http://host:port`, for people."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address without credentials and without its query, for people."""
        return self.origin + self.path.partition("?")[0]

    def __repr__(self) -> str:
        return f"Target({self.url!r})"


def target(url: str, path: str = "/metrics") -> Target:
    """The endpoint that `url` names, `path` where it names none; ValueError with a sentence that repeats no credentials."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its words repeat the address
        raise ValueError("it must be an address like http://127.0.0.1:8000/metrics") from None
    host = parts.hostname or ""
    try:
        port = parts.port
    except ValueError:
        raise ValueError("its port is not a number from 1 to 65535") from None
    if parts.scheme not in ("http", "https") or not is_host(host):
        raise ValueError("it must be an address like http://127.0.0.1:8000/metrics")
    secret = None
    if parts.username is not None:
        words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        secret = "Basic " + base64.b64encode(words.encode()).decode()
    asked = parts.path if parts.path not in ("", "/") else path
    return Target(
        parts.scheme,
        host,
        port or (443 if parts.scheme == "https" else 80),
        asked + (f"?{parts.query}" if parts.query else ""),
        secret,
    )


def fetch(where: Target, deadline_s: float = DEADLINE_S, max_bytes: int = MAX_BYTES, holding: Holding | None = None) -> bytes:
    """The body of one GET, held in `holding`; ScrapeError when it does not come whole, in time and in size."""
    bound = _Bound(where, max_bytes, holding)
    try:
        with connected(
            where, deadline_s, max_bytes + max_bytes // 4 + _CHUNK
        ) as connection:  # room for the sizes of small chunks
            return _get(connection, where, bound)
    except ScrapeError:
        raise
    except TooLargeError:
        raise ScrapeError(
            "out_of_range", f"{where.url} answers with more than it may, in its headers or its body, which is not read."
        ) from None
    except TimeoutError:
        raise _late(where, deadline_s) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _failed(where, error) from None


class _Bound:
    """How large one answer may be."""

    def __init__(self, where: Target, max_bytes: int, holding: Holding | None) -> None:
        self.where = where
        self._max_bytes = max_bytes
        self._holding = holding
        self._size = 0

    def take(self, more: int) -> None:
        """So many bytes more have come; ScrapeError where they are too many."""
        self._size += more
        if self._size > self._max_bytes:
            raise ScrapeError(
                "out_of_range", f"{self.where.url} answers with more than {self._max_bytes / 1e6:.0f} MB, which is not read."
            )
        if self._holding is not None:
            hold(self._holding, more)


def _get(connection: http.client.HTTPConnection, where: Target, bound: _Bound) -> bytes:
    headers = {"Accept": "text/plain", "Accept-Encoding": "gzip", "User-Agent": "fettle-agent", "Connection": "close"}
    if where.secret is not None:
        headers["Authorization"] = where.secret
    connection.request("GET", where.path, headers=headers)
    with connection.getresponse() as response:
        if 300 <= response.status < 400:
            raise ScrapeError(
                "driver_error", f"{where.url} redirects elsewhere, which is not followed: name the endpoint itself."
            )
        if response.status != 200:
            reason = _REASON_OF_STATUS.get(response.status, "driver_error")
            raise ScrapeError(reason, f"{where.url} answers with HTTP status {response.status}.")
        packed = response.getheader("Content-Encoding", "identity").lower() == "gzip"
        body = _unpacked(response, bound) if packed else _plain(response, bound)
        # the connection ended before the length that was promised; where none was, in the middle of a line or of the headers
        if response.length or (response.length is None and not response.chunked and not body.endswith(b"\n")):
            raise ScrapeError("driver_error", f"{where.url} ended its answer too early.")
        return body


def _plain(response: http.client.HTTPResponse, bound: _Bound) -> bytes:
    body = io.BytesIO()  # which hands its bytes out without a copy
    while chunk := response.read(_CHUNK):
        bound.take(len(chunk))
        body.write(chunk)
    return body.getvalue()


def _unpacked(response: http.client.HTTPResponse, bound: _Bound) -> bytes:
    """The body, unpacked no further than it may be large: a few packed bytes may stand for gigabytes."""
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
    body = io.BytesIO()
    try:
        while chunk := response.read(_CHUNK):
            while chunk:
                if unpack.eof:  # packed in several parts
                    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
                part = unpack.decompress(chunk, _CHUNK)
                bound.take(len(part))
                body.write(part)
                chunk = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
    except zlib.error as error:
        raise ScrapeError("not_a_number", f"{bound.where.url} answers with gzip that cannot be unpacked: {error}.") from None
    if not unpack.eof:
        raise ScrapeError("driver_error", f"{bound.where.url} ended its answer too early.")
    return body.getvalue()


def _late(where: Target, deadline_s: float) -> ScrapeError:
    return ScrapeError("timeout", f"{where.url} did not answer within {deadline_s:g} s.")


def _failed(where: Target, error: Exception) -> ScrapeError:
    if isinstance(error, ConnectionRefusedError):
        return ScrapeError("not_found", f"Nobody listens at {where.url}.")
    if isinstance(error, socket.gaierror):
        return ScrapeError("not_found", f"The name of {where.url} is not known.")
    if isinstance(error, ssl.SSLCertVerificationError):
        return ScrapeError("not_permitted", f"The certificate of {where.url} is not trusted here: {error.verify_message}.")
    return ScrapeError("driver_error", f"{where.url} cannot be read: {type(error).__name__}.")
