"""What Apprise does not tell of a delivery: each request's HTTP status, Retry-After, the kind of failure, and whether it may have arrived.

Apprise's plugins send with the library `requests`, which each of their modules names. `listen` puts a stand-in there that sends by a session
of ours; nobody else's `requests` is touched. A delivery is a `Hearing`, known to its thread alone, so several may be under way at once.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import requests
from apprise.utils.http import ConnectionTracker, track_connections, tracked_session
from django.conf import settings
from requests.adapters import BaseAdapter
from requests.utils import select_proxy
from urllib3.exceptions import HTTPError

from fleet.notify import faults, reach
from fleet.notify.answers import retry_after_s
from fleet.notify.faults import Fault
from fleet.notify.hushed import hush

LIMIT_S: Final = 20.0
"""The longest that one part of a message may take, all in all; then what still goes on may use the network no more."""
MOST_BYTES: Final = 256 * 1024
"""Of an answer; what is longer is not read."""


@dataclass(slots=True)
class Exchange:
    """One HTTP request and what came back."""

    host: str
    began: bool = False
    """Bytes of the request went out: whatever came of it, it may have arrived."""
    status: int | None = None
    body: bytes = b""
    retry_after_s: float | None = None
    fault: Fault | None = None
    detail: str = ""
    """What the TLS library says of a certificate."""


@dataclass(slots=True)
class Hearing:
    """All that was heard of one delivery."""

    ends: float = field(default_factory=lambda: time.monotonic() + LIMIT_S)
    exchanges: list[Exchange] = field(default_factory=list)
    mailed: bool = False
    """The body of a mail went out."""
    refused: str = ""
    """The address that it would have gone to and may not."""
    proxies: frozenset[str] = frozenset()
    reached: bool = False
    """A connection was begun: something may have left."""
    over: bool = False
    late: bool = False
    """It did not end by itself."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self, late: bool) -> None:
        """From here on its thread, should it still run, may use the network no more."""
        with self.lock:
            self.over, self.late = True, late

    def connects(self, address: object) -> None:
        """RefusedError unless the address may be reached."""
        self.looks_up()
        peer = str(address[0]) if isinstance(address, tuple) and address else ""
        if not reach.allowed(peer) and peer not in self.proxies:
            self.refused = peer or "a socket of this machine"
            raise reach.RefusedError("Messages may not go there.")
        self.reached = True

    def looks_up(self) -> None:
        """RefusedError when the time is over."""
        if self.over:
            raise reach.RefusedError("The time is over.")

    def writes(self, data: object) -> None:
        """Note that a request, or the body of a mail, begins to leave."""
        with self.lock:
            self.looks_up()
            raw = data if isinstance(data, bytes) else b""
            if self.exchanges and not raw.startswith(b"CONNECT "):
                self.exchanges[-1].began = True
            elif raw.endswith(b"\r\n.\r\n"):
                self.mailed = True

    @property
    def unsure(self) -> bool:
        """Something went out, and no answer says what became of it."""
        return self.mailed or any(
            (one.began and one.status is None) or (one.fault is not None and one.began) for one in self.exchanges
        )


@contextmanager
def hearing() -> Iterator[Hearing]:
    """What goes out meanwhile in this thread, and in those that it hands its context to, is heard and kept within bounds."""
    reach.watch()
    hush()
    heard = Hearing()
    before = reach.watched.set(heard)
    try:
        yield heard
    finally:
        reach.watched.reset(before)


class _Ear(BaseAdapter):
    """Sends one request, notes what became of it, and reads no more of the answer than `MOST_BYTES`, until the delivery's time is over."""

    def __init__(self) -> None:
        super().__init__()
        self.session = tracked_session()

    def send(
        self, request: Any, stream: bool = False, timeout: Any = None, verify: Any = True, cert: Any = None, proxies: Any = None
    ) -> Any:
        """The answer, read already; raises what `requests` raises."""
        current = reach.watched.get()
        heard = current if isinstance(current, Hearing) else Hearing()
        exchange = Exchange(host=urlsplit(request.url).hostname or "")
        heard.exchanges.append(exchange)
        tracker = ConnectionTracker()
        try:
            if proxy := select_proxy(request.url, proxies):
                _past_proxy(heard, exchange.host, proxy)
            with track_connections(tracker, heard.ends):
                adapter = self.session.get_adapter(request.url)
                answer = adapter.send(request, stream=True, timeout=timeout, verify=verify, cert=cert, proxies=proxies)
                exchange.status = answer.status_code
                exchange.retry_after_s = retry_after_s(answer.headers, b"")
                exchange.body = _read(answer)
            if tracker.expired:  # we cut it off: the end that was read is none
                raise requests.ReadTimeout("The time is over.", request=request)
        except (requests.RequestException, HTTPError, OSError) as error:
            exchange.fault = faults.kind(error, late=tracker.expired, cut=exchange.status is not None)
            exchange.detail = faults.of_certificate(error)
            if isinstance(error, requests.RequestException):
                raise
            raise requests.ConnectionError(type(error).__name__, request=request) from None
        exchange.retry_after_s = retry_after_s(answer.headers, exchange.body)
        answer._content = exchange.body
        answer._content_consumed = True  # type: ignore[attr-defined] # the stubs do not know it
        return answer

    def close(self) -> None:
        """Close the connections."""
        self.session.close()


def _read(answer: requests.Response) -> bytes:
    body = b""
    for chunk in answer.iter_content(16 * 1024):
        body += chunk
        if len(body) > MOST_BYTES:
            break
    answer.close()
    return body[:MOST_BYTES]


def _past_proxy(heard: Hearing, host: str, proxy: str) -> None:
    """Let the delivery connect to the operator's proxy, unless the target, as far as it can be told from here, is one that it may not reach."""
    for address in reach.addresses(host):
        if not reach.allowed(address):
            heard.refused = address
            raise reach.RefusedError("Messages may not go there.")
    heard.proxies |= reach.addresses(urlsplit(proxy).hostname or "")


class _Session(requests.Session):
    """Follows a redirect only where the request stays what it is and stays with its server: elsewhere it would be lost, or told to others."""

    def __init__(self) -> None:
        super().__init__()
        ear = _Ear()
        self.mount("https://", ear)
        self.mount("http://", ear)
        self.max_redirects = 3

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """The address to follow; None for what is an answer to note."""
        target = super().get_redirect_target(resp)
        if target is None or (resp.status_code not in (307, 308) and resp.request.method not in ("GET", "HEAD")):
            return None
        old, new = urlsplit(resp.url), urlsplit(urljoin(resp.url, target))
        same = (new.scheme, new.netloc) == (old.scheme, old.netloc)
        return target if same or ((old.scheme, new.scheme) == ("http", "https") and new.hostname == old.hostname) else None

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """The environment's proxies, and the site's own certificates where it has some."""
        merged = super().merge_environment_settings(url, proxies, stream, verify, cert)
        if verify is True and settings.FETTLE_NOTIFY_CA_FILE:
            merged["verify"] = settings.FETTLE_NOTIFY_CA_FILE
        return merged


def _request(method: str, url: str, **words: Any) -> requests.Response:
    with _Session() as session:
        return session.request(method=method, url=url, **words)


class _Requests(ModuleType):
    """The library `requests`, but for the calls that send."""

    def __getattr__(self, name: str) -> Any:
        return getattr(requests, name)

    request = staticmethod(_request)
    delete, head, options = (staticmethod(partial(_request, method)) for method in ("DELETE", "HEAD", "OPTIONS"))

    @staticmethod
    def get(url: str, params: Any = None, **words: Any) -> requests.Response:
        """As `requests.get`."""
        return _request("GET", url, params=params, **words)

    @staticmethod
    def post(url: str, data: Any = None, json: Any = None, **words: Any) -> requests.Response:
        """As `requests.post`."""
        return _request("POST", url, data=data, json=json, **words)

    @staticmethod
    def put(url: str, data: Any = None, **words: Any) -> requests.Response:
        """As `requests.put`."""
        return _request("PUT", url, data=data, **words)

    @staticmethod
    def patch(url: str, data: Any = None, **words: Any) -> requests.Response:
        """As `requests.patch`."""
        return _request("PATCH", url, data=data, **words)


http: Final = _Requests("requests")
"""`requests` as Apprise's plugins get it, for plugins of our own."""


def listen() -> None:
    """Give Apprise's modules, those that are loaded by now, our `requests`. Safe to call again, when more are loaded."""
    for name, module in list(sys.modules.items()):
        if name.startswith("apprise.") and name != "apprise.utils.http" and getattr(module, "requests", None) is requests:
            module.requests = http  # type: ignore[attr-defined] # each has the name, by its import
