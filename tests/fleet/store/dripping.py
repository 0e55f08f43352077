"""A server on loopback that sends what it is told, and then one thing again and again until the other side goes."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Dripping(socketserver.ThreadingTCPServer):
    """Answers every request with `head`, then `times` times (None: without end) with `drop`, every `pause_s` seconds."""

    daemon_threads = True

    def __init__(self, head: bytes, drop: bytes, pause_s: float, times: int | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.head, self.drop, self.pause_s, self.times = head, drop, pause_s, times
        self.stop = threading.Event()
        self.asked = 0
        self.connections = 0

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    server: Dripping

    def handle(self) -> None:
        """Answer whatever comes, on this connection, until it is closed."""
        server = self.server
        server.connections += 1
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while self._read():
                server.asked += 1
                self.wfile.write(server.head)
                sent = 0
                while sent != server.times:
                    if server.stop.wait(server.pause_s):
                        return
                    self.wfile.write(server.drop)
                    sent += 1
        except OSError:
            return

    def _read(self) -> bool:
        """Take a request; False where there is none."""
        size = 0
        while (line := self.rfile.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        self.rfile.read(size)
        return line != b""


@contextmanager
def dripping(head: bytes, drop: bytes, pause_s: float = 0.02, times: int | None = None) -> Iterator[Dripping]:
    """A running one, stopped at the end."""
    with Dripping(head, drop, pause_s, times) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.stop.set()
            server.shutdown()
            thread.join()
