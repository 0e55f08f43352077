"""One HTTP server that holds telemetry: how it is asked, and the sentence for each way in which it does not answer.

Sentences name the address without its credentials. What may pass by itself (no connection, a time-out, 429, 5xx) is tried
once more where asking twice does no harm; whoever writes tries again in its own time. No exchange lasts without end (exchange.py).
"""

import base64
import contextlib
import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError, NewConnectionError, SSLError
from urllib3.exceptions import TimeoutError as SlowError

from fleet.store import exchange
from fleet.store.series import StoreError

CONNECT_S: Final = 5.0
POOL: Final = 8
"""Connections that are kept: as many as threads ask at once."""
ERROR_BYTES: Final = 64 << 10
"""Of an error, and of what is said to a write that was taken: more of it is not read."""
ANSWER_BYTES: Final = 1 << 30
"""Of an answer whose caller knows no better: ten thousand points of a thousand series are less than half of it."""
_DETAIL: Final = 300
_SECRET: Final = re.compile(r"auth|token|key|secret|cookie|password", re.IGNORECASE)
"""In the name of a header: its value is not for a log."""
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Access:
    """How a server is asked: `headers` go with every request, `ca` is a file of certificates, `read_s` the longest silence.

    What comes too slowly is broken off after two such silences, however little is silent (exchange.py).
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    ca: Path | None = None
    read_s: float = 30.0


class Endpoint:
    """A server under one base address. Threads may share it; making one connects to nothing.

    `named_by` begins the names of the settings that its sentences point to.
    """

    def __init__(self, url: str, access: Access, what: str, named_by: str = "FETTLE_STORE") -> None:
        parts = urlsplit(url)
        headers = dict(access.headers)
        if parts.username is not None:
            headers["Authorization"] = basic(unquote(parts.username), unquote(parts.password or ""))
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
        host += f":{parts.port}" if parts.port else ""
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._query = parts.query
        self._named_by = named_by
        self.name = f"{what} at {self._base}"
        self._secrets = _secrets(headers)
        self._silence_s = access.read_s
        self._pool = exchange.pools(
            num_pools=2,
            maxsize=POOL,
            block=True,
            headers=headers,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=access.read_s),
            retries=False,
            cert_reqs="CERT_REQUIRED",
            ca_certs=None if access.ca is None else str(access.ca),
        )

    def beside(self, page: str, other: str) -> "Endpoint | None":
        """The same server with `other` in place of `page`, with which its base address ends; None where it does not."""
        if not self._base.endswith(page):
            return None
        found = copy.copy(self)
        found._base = self._base.removesuffix(page) + other
        found.name = self.name.removesuffix(page) + other
        return found

    def get(self, path: str, fields: Mapping[str, str] | None = None, most: int = ANSWER_BYTES) -> bytes:
        """The body of a GET, tried once more when no answer came; StoreError says why there is none, or that it is over `most` bytes."""
        query = "&".join(filter(None, (self._query, urlencode(fields or {}))))
        return self._twice("GET", path + (f"?{query}" if query else ""), None, {}, most)

    def ask(self, path: str, fields: Mapping[str, str] | list[tuple[str, str]], most: int = ANSWER_BYTES) -> bytes:
        """The body of a POST of a form that changes nothing, such as a long query; as `get`."""
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self._twice("POST", path, urlencode(fields).encode(), headers, most)

    def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """POST what is to be stored, once. StoreError when it was not taken or nobody knows."""
        self._once("POST", path + (f"?{self._query}" if self._query and not path else ""), body, headers, None)

    def _twice(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], most: int) -> bytes:
        try:
            return self._once(method, path, body, headers, most)
        except PassingError:
            return self._once(method, path, body, headers, most)

    def _once(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], most: int | None) -> bytes:
        """The body of an answer of at most `most` bytes; None: whatever is said to it, that it was taken is enough."""
        try:
            status, said, whole = self._exchanged(method, path, body, headers, most)
        except (HTTPError, OSError) as error:
            raise self._silent(error) from error
        if not 200 <= status < 300:
            raise self._refused(status, said)
        if not whole and most is not None:
            raise StoreError(
                f"{self.name} answers with more than {most / 1e6:,.0f} MB: ask for less at once, or for a shorter time."
            )
        return said

    def _exchanged(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], most: int | None
    ) -> tuple[int, bytes, bool]:
        """Status and body of an answer, and whether the body is all of it: of an error the beginning is enough."""
        with exchange.watched(self._silence_s) as watch:
            merged = {**self._pool.headers, **headers}
            answer = self._pool.request(
                method, self._base + path, body=body, headers=merged, redirect=False, preload_content=False
            )
            try:
                taken = 200 <= answer.status < 300 and most is not None
                told, whole = exchange.body(answer, watch, most if taken and most is not None else ERROR_BYTES)
            finally:
                answer.close()  # a connection of which not all was read is of no more use
                answer.release_conn()
        return answer.status, told, whole

    def _silent(self, error: Exception) -> StoreError:
        cause = error.reason if isinstance(error, MaxRetryError) and error.reason is not None else error
        if isinstance(cause, SSLError):
            return StoreError(
                f"{self.name} is not trusted: {_short(str(cause))}. Name its authority with {self._named_by}_CA_FILE."
            )
        if isinstance(cause, NewConnectionError):
            reason = cause.__cause__
            why = reason.strerror if isinstance(reason, OSError) and reason.strerror else _short(str(cause).rpartition(": ")[2])
            return PassingError(f"{self.name} cannot be reached: {why}. Does it run, and is {self._named_by}_URL right?")
        if isinstance(cause, (SlowError, TimeoutError)):
            return PassingError(f"{self.name} does not answer in time; is it overloaded, or is its disk slow?")
        return PassingError(f"{self.name} broke the connection off: {_short(str(cause))}.")

    def _refused(self, status: int, body: bytes) -> StoreError:
        text = body.decode(errors="replace")
        for secret in self._secrets:  # a proxy may say back what it was sent
            text = text.replace(secret, "***")
        said, by = _short(text), self._named_by
        told = f" It says: {said}" if said else ""
        if status in (401, 403):
            return StoreError(
                f"{self.name} refuses our credentials (HTTP {status}): set {by}_USER, {by}_PASSWORD_FILE or {by}_TOKEN_FILE.{told}"
            )
        if 300 <= status < 400:
            return StoreError(f"{self.name} redirects elsewhere (HTTP {status}), which is not followed: name the server itself.")
        if status == 404 or "unsupported path" in said:
            return StoreError(f"{self.name} knows no such address (HTTP {status}); is the path in {by}_URL right?{told}")
        if "read-only" in said or "readonly" in said:
            return StoreError(f"{self.name} takes nothing, because its disk is nearly full: free space there.{told}")
        if status == 429 or status >= 500:
            return PassingError(f"{self.name} cannot answer now (HTTP {status}).{told}")
        return RefusedError(f"{self.name} refuses the request (HTTP {status}).{told}")


class PassingError(StoreError):
    """What may pass by itself within moments."""


class RefusedError(StoreError):
    """What would be refused as well if it were sent again: the request itself is not wanted."""


def basic(user: str, password: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _secrets(headers: Mapping[str, str]) -> list[str]:
    """What of these headers is not for a log, longest first: whole values, the token or password in them."""
    found: set[str] = set()
    for name, value in headers.items():
        if _SECRET.search(name):
            found |= {value, value.rpartition(" ")[2]}
        if value.startswith("Basic "):
            with contextlib.suppress(ValueError):
                found.add(base64.b64decode(value[6:]).decode().partition(":")[2])
    return sorted(found - {""}, key=len, reverse=True)


def _short(text: str) -> str:
    return _SPACES.sub(" ", text).strip()[:_DETAIL]
