"""A chat service for tests: a real HTTP server on a port of its own."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.answering import answering


class Receiver(ThreadingHTTPServer):
    """Keeps what was posted, from its arrival on; answers the given statuses in turn, then 200. `delay_s`: how long it lets callers wait."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[dict[str, Any]] = []
        self.statuses: list[int] = []
        self.delay_s = 0.0

    def url(self, secret: str = "") -> str:
        """Its Apprise URL; the path stands for the token that such URLs hold."""
        return f"json://127.0.0.1:{self.server_port}/{secret}"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        """Keep the message and answer."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.statuses.pop(0) if self.server.statuses else 200
        self.server.got.append({"status": status, "headers": dict(self.headers), "path": self.path, **json.loads(body)})
        time.sleep(self.server.delay_s)
        try:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()
        except OSError:
            pass  # the caller gave up

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A running receiver, stopped at the end."""
    with answering(Receiver()) as server:
        yield server
