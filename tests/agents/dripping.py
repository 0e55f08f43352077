"""A server on loopback that never ends its answer, and never stops sending either."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agents.scrape import Target, target


@contextmanager
def dripping(head: bytes, drop: bytes, pause_s: float = 0.02) -> Iterator[Target]:
    """A server that answers with `head`, then with `drop` after each pause until the other side goes."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.recv(1 << 16)
                connection.sendall(head)
                while not stop.wait(pause_s):
                    connection.sendall(drop)
            except OSError:
                return

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        yield target(f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        stop.set()
        listener.close()
        thread.join(10)
