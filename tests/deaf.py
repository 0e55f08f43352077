"""A peer that sends and never reads: a socket by hand, for every client library reads what comes."""

import base64
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

BINARY, PING = 0x2, 0x9


class Deaf:
    """One WebSocket. Its own window is tiny, so what it is sent stays with the server."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        at = urlsplit(url)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(10)
        self.socket.connect((at.hostname, at.port))
        lines = [
            f"GET {at.path} HTTP/1.1",
            f"Host: {at.netloc}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            "Sec-WebSocket-Version: 13",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = self.socket.recv(200)
        assert b" 101 " in answer, answer

    def say(self, payload: bytes, opcode: int = BINARY) -> None:
        """Send one message."""
        self.socket.sendall(_frame(payload, opcode))

    def fill(self) -> None:
        """Ask for pongs, more of them than the server's kernel keeps for one socket."""
        most = int(Path("/proc/sys/net/ipv4/tcp_wmem").read_text().split()[2])
        pings = _frame(b"x" * 125, PING) * 1000
        for _ in range((most + 2_000_000) // 125_000):
            self.socket.sendall(pings)

    def is_gone(self, seconds: float = 20.0) -> bool:
        """True once the server has ended the connection for good: the socket then cannot be written."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                self.say(b"", PING)
            except OSError:
                return True
            time.sleep(0.1)
        return False


@contextmanager
def deaf(url: str, token: str | None = None) -> Iterator[Deaf]:
    """A connection that reads nothing but the handshake's first bytes."""
    peer = Deaf(url, {} if token is None else {"Authorization": f"Bearer {token}"})
    with closing(peer.socket):
        yield peer


def _frame(payload: bytes, opcode: int) -> bytes:
    size = len(payload)
    length = struct.pack("!B", 0x80 | size) if size < 126 else struct.pack("!BH", 0x80 | 126, size)
    return bytes([0x80 | opcode]) + length + b"\0\0\0\0" + payload
