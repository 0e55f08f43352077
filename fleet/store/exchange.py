"""HTTP exchanges that are over in time, whatever the other side does.

A socket's own timeout begins anew with every byte that drips in. So each exchange has a time of its own, and when that is over its
socket is shut, which wakes whoever reads from it. What arrives buys more time, so that a large answer may take long and a slow one may not.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

SILENCES: Final = 2
"""An exchange may take as long as so many of the longest silences: one until the first byte, and as much for the rest of it."""
BYTES_PER_S: Final = 100_000
"""So many bytes buy a second more: what comes more slowly is no answer that anybody waits for."""
MOST_SILENCES: Final = 40
"""And however much comes, at most so many: twenty minutes by default, for what takes longer than that was asked for in vain."""
PIECE: Final = 1 << 18


class Watch:
    """The time of one exchange, on one thread. `ended` is true once the time was over and the socket was shut."""

    def __init__(self, silence_s: float) -> None:
        self.ended = False
        self._silence_s = silence_s
        self._began = time.monotonic()
        self._received = 0
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._done = threading.Event()

    def on(self, sock: socket.socket | None) -> None:
        """The exchange goes over this socket."""
        with self._lock:
            self._socket = sock
            if self.ended:
                self._shut()

    def received(self, size: int) -> None:
        """So many bytes have come."""
        self._received += size

    def _left(self) -> float:
        bought = SILENCES * self._silence_s + self._received / BYTES_PER_S
        return self._began + min(bought, MOST_SILENCES * self._silence_s) - time.monotonic()

    def run(self) -> None:
        """Wait until it is done or over."""
        while not self._done.wait(max(0.0, self._left())):
            with self._lock:
                if self._left() <= 0 and not self._done.is_set():
                    self.ended = True
                    self._shut()
                    return

    def done(self) -> None:
        """The socket is no longer ours."""
        with self._lock:
            self._done.set()

    def _shut(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it is closed already
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # of TLS too the socket beneath


_current: Final = threading.local()


@contextlib.contextmanager
def watched(silence_s: float) -> Iterator[Watch]:
    """An exchange of this thread over connections of `pools`; TimeoutError where its time was over before the block was."""
    watch = Watch(silence_s)
    _current.watch = watch
    threading.Thread(target=watch.run, name="exchange", daemon=True).start()
    try:
        yield watch
    except Exception:
        if not watch.ended:
            raise
    finally:
        _current.watch = None
        watch.done()
    if watch.ended:  # what the block made of the rest that it was cut off from is no answer
        raise TimeoutError


class _Watched(HTTPConnection):
    """Tells the exchange under way of its socket, as soon as there is one and for each request anew."""

    def connect(self) -> None:
        """As in the class above."""
        super().connect()
        self._tell()

    def request(self, *args: Any, **kwargs: Any) -> None:
        """As in the class above."""
        self._tell()
        super().request(*args, **kwargs)

    def _tell(self) -> None:
        watch: Watch | None = getattr(_current, "watch", None)
        if watch is not None:
            watch.on(self.sock)


class _WatchedTls(_Watched, HTTPSConnection):
    """The same over TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Watched


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedTls


def pools(**kwargs: Any) -> urllib3.PoolManager:
    """A pool manager whose exchanges can be watched; the arguments are urllib3's."""
    manager = urllib3.PoolManager(**kwargs)
    manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
    return manager


def body(answer: urllib3.BaseHTTPResponse, watch: Watch, most: int) -> tuple[bytes, bool]:
    """The first `most` bytes of an answer that was not read yet, and whether that is all of it."""
    pieces: list[bytes] = []
    left = most
    # Not `stream`: of a chunk's length it would read a line without end.
    while piece := answer.read1(PIECE):
        watch.received(len(piece))
        pieces.append(piece[:left])
        left -= len(piece)
        if left < 0:
            break
    return b"".join(pieces), left >= 0
