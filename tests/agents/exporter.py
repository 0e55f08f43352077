"""A stub endpoint of our own: an HTTP server on loopback that serves what a test lays down."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.answering import answering

ANSWERS = Path(__file__).resolve().parent.parent / "device_answers" / "prometheus"


class Exporter:
    """What the stub answers; change `body`, `status` or `headers` between two scrapes."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = server.server_address[1]
        self.body: bytes | Callable[[], bytes] = b""
        self.status = 200
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.hold = threading.Event()
        """Cleared: requests wait for it before they are answered."""
        self.hold.set()

    @property
    def url(self) -> str:
        """Its metrics."""
        return f"http://127.0.0.1:{self.port}/metrics"

    def serve(self, name: str) -> None:
        """Answer with a file of tests/device_answers/prometheus."""
        self.body = answer(name).encode()


def answer(name: str) -> str:
    """A recorded or reconstructed answer; its first lines say where it comes from."""
    return (ANSWERS / name).read_text()


@contextmanager
def exporter() -> Iterator[Exporter]:
    """A running stub; ends with the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            stub.asked.append((self.path, dict(self.headers)))
            stub.hold.wait(30)
            body = stub.body() if callable(stub.body) else stub.body
            try:
                self.send_response(stub.status)
                for key, value in {"Content-Length": str(len(body)), **stub.headers}.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                return  # the scraper went away

        def log_message(self, *words: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub = Exporter(server)
    with answering(server):
        try:
            yield stub
        finally:
            stub.hold.set()


def free_port() -> int:
    """A port of loopback where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
