"""A server on loopback that never ends its answer, and never stops sending either."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agents.scrape import Target, target


@contextmanager
def dripping(head: bytes, drop: bytes) -> Iterator[Target]:
    """A server that answers with `head`, then with `drop` every few milliseconds until the other side goes."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(head)
                while not stop.wait(0.02):
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
