"""Prometheus endpoints, read within bounds: time, size, no redirects; what fails is one of the registry's reasons.

Calls block, so they belong into a thread of their own: an endpoint that hangs costs that thread's readings alone. The
exporter's own TYPE and HELP lines are never looked at; the registry knows what a metric is.
"""

import base64
import http.client
import io
import re
import socket
import ssl
import zlib
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from agents.connection import connected

DEADLINE_S: Final = 4.0
"""For a whole answer, from the connection to the last byte."""
MAX_BYTES: Final = 5_000_000
"""Of one answer, unpacked. A node of 16 cards in 7 slices each, 100 fields of every one with pod labels, is 4 MB."""
MAX_SAMPLES: Final = 15_000
"""Of one answer, of those that are wanted: the agent's memory must not be an endpoint's to fill."""
_KEEP_HEADS: Final = MAX_SAMPLES
_KEEP_BYTES: Final = MAX_BYTES
"""Of one endpoint's series, what is remembered from answer to answer."""
_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,200}|[0-9A-Fa-f:.]{2,45}")
_CHUNK: Final = 1 << 16
_REASON_OF_STATUS: Final = {401: "not_permitted", 403: "not_permitted", 404: "not_found", 408: "timeout", 504: "timeout"}


class ScrapeError(Exception):
    """An endpoint brought nothing; `reason` is one of wire.metrics.REASONS. The message holds no credentials."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


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


class Sample(NamedTuple):
    """One line: its name, labels and value; `at` is the exporter's own time in epoch seconds where it gives one."""

    name: str
    labels: dict[str, str]
    value: float
    at: float | None


class Parsed(NamedTuple):
    """The samples that could be read, and how many lines could not."""

    samples: list[Sample]
    bad_lines: int


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
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(host):
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


def fetch(where: Target, deadline_s: float = DEADLINE_S, max_bytes: int = MAX_BYTES) -> bytes:
    """The body of one GET; ScrapeError when it does not come whole, in time and in size."""
    try:
        with connected(where, deadline_s) as connection:
            return _get(connection, where, max_bytes)
    except ScrapeError:
        raise
    except TimeoutError:
        raise _late(where, deadline_s) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _failed(where, error) from None


class Parser:
    """Reads answers of one endpoint; what stands before a value is parsed once, for it is the same in every answer."""

    def __init__(self, starts: tuple[str, ...]) -> None:
        self._wanted = tuple(start.encode() for start in starts)
        self._heads: dict[str, tuple[str, dict[str, str]]] = {}
        self._head_bytes = 0

    def read(self, body: bytes) -> Parsed:
        """The samples whose lines begin with one of `starts`; a line that is no sample costs itself alone.

        ScrapeError where there are more than MAX_SAMPLES.
        """
        samples: list[Sample] = []
        bad = 0
        for line in io.BytesIO(body):  # one at a time: all of them as text take many times the body
            if not line.startswith(self._wanted):
                continue
            if len(samples) + bad >= MAX_SAMPLES:
                raise ScrapeError("out_of_range", f"The answer has more than {MAX_SAMPLES} series, which are not read.")
            try:
                samples.append(self._sample(line.decode(errors="replace")))
            except (ValueError, IndexError, KeyError):
                bad += 1
        return Parsed(samples, bad)

    def _sample(self, line: str) -> Sample:
        head, brace, rest = line.rpartition("}")
        known = self._heads.get(head) if brace else None
        if known is not None:
            words = rest.split()
            if len(words) <= 2:
                return Sample(*known, float(words[0]), int(words[1]) / 1000 if len(words) == 2 else None)
        sample = _parsed(line)
        if brace:
            self._head_bytes += len(head)
            if len(self._heads) >= _KEEP_HEADS or self._head_bytes > _KEEP_BYTES:
                self._heads.clear()  # labels that change with every answer are not worth keeping
                self._head_bytes = len(head)
            self._heads[head] = (sample.name, sample.labels)
        return sample


def _parsed(line: str) -> Sample:
    """One line's sample; ValueError, IndexError or KeyError where it is none."""
    from prometheus_client.parser import text_string_to_metric_families  # 4 MB that only who scrapes pays

    [family] = text_string_to_metric_families(line)
    [sample] = family.samples
    at = sample.timestamp
    return Sample(sample.name, sample.labels, float(sample.value), None if at is None else float(at))


def _get(connection: http.client.HTTPConnection, where: Target, max_bytes: int) -> bytes:
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
        body = _unpacked(response, where, max_bytes) if packed else _plain(response, where, max_bytes)
        # the connection ended before the length that was promised; where none was, in the middle of a line or of the headers
        if response.length or (response.length is None and not response.chunked and not body.endswith(b"\n")):
            raise ScrapeError("driver_error", f"{where.url} ended its answer too early.")
        return body


def _plain(response: http.client.HTTPResponse, where: Target, max_bytes: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while chunk := response.read(_CHUNK):
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(where, max_bytes)
        parts.append(chunk)
    return b"".join(parts)


def _unpacked(response: http.client.HTTPResponse, where: Target, max_bytes: int) -> bytes:
    """The body, unpacked no further than `max_bytes`: a few packed bytes may stand for gigabytes."""
    unpack = zlib.decompressobj(16 + zlib.MAX_WBITS)
    body = b""
    try:
        while chunk := response.read(_CHUNK):
            body += unpack.decompress(chunk, max_bytes + 1 - len(body))
            if len(body) > max_bytes or unpack.unconsumed_tail:
                raise _too_large(where, max_bytes)
    except zlib.error as error:
        raise ScrapeError("not_a_number", f"{where.url} answers with gzip that cannot be unpacked: {error}.") from None
    if not unpack.eof:
        raise ScrapeError("driver_error", f"{where.url} ended its answer too early.")
    return body


def _too_large(where: Target, max_bytes: int) -> ScrapeError:
    return ScrapeError("out_of_range", f"{where.url} answers with more than {max_bytes / 1e6:.0f} MB, which is not read.")


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
