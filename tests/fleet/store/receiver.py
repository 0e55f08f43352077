"""A receiver of remote writes for tests, which answers as told: 200, other statuses in turn, or not at all for a while."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cramjam import snappy

from tests.answering import answering


class WriteReceiver(ThreadingHTTPServer):
    """`got` holds what was taken, unpacked; `statuses` are answered first, `always` to all; errors say `says`; `delay_s` is how long callers wait."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[bytes] = []
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.statuses: list[int] = []
        self.always: int | None = None
        self.refuses = b""
        self.says = ""
        self.delay_s = 0.0

    @property
    def url(self) -> str:
        """Where it takes writes."""
        return f"http://127.0.0.1:{self.server_port}/api/v1/write"


class _Handler(BaseHTTPRequestHandler):
    server: WriteReceiver

    def do_POST(self) -> None:
        """Take the body or say why not."""
        server = self.server
        body = bytes(snappy.decompress_raw(self.rfile.read(int(self.headers["Content-Length"]))))
        server.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
        time.sleep(server.delay_s)
        status = server.always or (server.statuses.pop(0) if server.statuses else 204)
        if server.refuses and server.refuses in body:
            status = 400
        if status < 300:
            server.got.append(body)
        try:
            self.send_response(status)
            said = server.says.encode() if status >= 300 else b""
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)
        except OSError:
            pass  # the caller gave up

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def receiving() -> Iterator[WriteReceiver]:
    """A running receiver, stopped at the end."""
    with answering(WriteReceiver()) as server:
        yield server
