"""Real chats for tests: HTTPS on loopback under the chats' own names, with a certificate of an authority that only the test trusts."""

import json
import os
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.answering import answering
from tests.made_once import made_once

HOSTS: Final = (
    "hooks.slack.com", "slack.com", "open.feishu.cn", "open.larksuite.com", "oapi.dingtalk.com", "qyapi.weixin.qq.com", "discord.com",
    "api.telegram.org", "events.pagerduty.com", "api.opsgenie.com", "chat.example.org",
)  # fmt: skip
SLACK: Final = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
FEISHU: Final = "feishu://f0e1d2c3-b4a5-9687-7869-5a4b3c2d1e0f"
DINGTALK: Final = "dingtalk://d1ngt4lkt0kenthatnobodymaysee0123456789"
WECOM: Final = "wecombot://w3c0mk3y-that-nobody-may-see-0123"
DISCORD: Final = "discord://123456789012345678/d1sc0rdt0kenthatnobodymaysee"
TELEGRAM: Final = "tgram://123456789:t3l3gramt0kenthatnobodymaysee01234/12315544/"
TAKEN: Final[dict[str, Any]] = {
    "hooks.slack.com": "ok",
    "open.feishu.cn": {"code": 0, "msg": "success", "data": {}},
    "oapi.dingtalk.com": {"errcode": 0, "errmsg": "ok"},
    "qyapi.weixin.qq.com": {"errcode": 0, "errmsg": "ok"},
    "discord.com": {"id": "1"},
    "api.telegram.org": {"ok": True, "result": {"message_id": 1}},
    "events.pagerduty.com": {"status": "success", "message": "Event processed", "dedup_key": "k"},
    "api.opsgenie.com": {"result": "Request will be processed", "took": 0.1, "requestId": "43a29c5c"},
}
"""What each answers to a message that it takes."""
Play: TypeAlias = Callable[["_Handler"], None]


@dataclass(frozen=True)
class Posted:
    """One request that arrived whole."""

    method: str
    host: str
    path: str
    headers: dict[str, str]
    body: Any
    """Its JSON."""


class Chats(ThreadingHTTPServer):
    """All of them in one server. What is in `plays` is played in turn; then every message is taken."""

    daemon_threads = True

    def __init__(self, certificate: Path | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.got: list[Posted] = []
        self.plays: list[Play] = []
        self.context: ssl.SSLContext | None = None
        self.let_go = threading.Event()
        if certificate is not None:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(certificate)

    def get_request(self) -> tuple[socket.socket, Any]:
        """A connection; its handshake is its own thread's."""
        connection, address = super().get_request()
        if self.context is None:
            return connection, address
        return self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, *_: Any) -> None:
        """Callers give up; that is what this is about."""


class _Handler(BaseHTTPRequestHandler):
    server: Chats
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Keep the message, and play what comes next."""
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        host = str(self.headers["Host"]).partition(":")[0]
        self.server.got.append(Posted(self.command, host, self.path, dict(self.headers), json.loads(raw)))
        play = self.server.plays.pop(0) if self.server.plays else answer(200, TAKEN.get(host, "ok"))
        play(self)

    def do_GET(self) -> None:
        """A page that anybody may read, such as a login's."""
        self.server.got.append(Posted("GET", str(self.headers["Host"]).partition(":")[0], self.path, dict(self.headers), None))
        answer(200, "<html>Log in</html>")(self)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def finish(self) -> None:
        """Close what is left of the connection."""
        with suppress(OSError, ValueError):
            super().finish()


def answer(status: int, body: Any = "", **headers: str) -> Play:
    """An answer; a body that is no text is JSON. Underscores in the headers' names stand for dashes."""

    def play(handler: _Handler) -> None:
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    return play


def slow(after_s: float, then: Play) -> Play:
    """The answer, later."""

    def play(handler: _Handler) -> None:
        time.sleep(after_s)
        then(handler)

    return play


def hang(handler: _Handler) -> None:
    """Nothing, until the test is over."""
    handler.server.let_go.wait(60)
    handler.close_connection = True


def drip(handler: _Handler) -> None:
    """An answer that goes on for ever, a byte now and then."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    try:
        while not handler.server.let_go.wait(0.05):
            handler.wfile.write(b".")
    except OSError:
        pass
    handler.close_connection = True


def flood(handler: _Handler) -> None:
    """200, and more bytes than anybody wants."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    try:
        for _ in range(2000):
            handler.wfile.write(b"x" * 65536)
    except OSError:
        pass
    handler.close_connection = True


def reset(handler: _Handler) -> None:
    """The request is read; then the connection is gone."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(handler.connection.detach())
    handler.close_connection = True


def half(handler: _Handler) -> None:
    """A status and the beginning of a body."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 400\r\n\r\n{"code": 0, ')
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def certificate(name: str = "chats") -> tuple[Path, Path]:
    """An authority's certificate, and the chats' with its key, which the authority signed; made once for each name."""
    authority = made_once(f"{name}-authority.pem", lambda part: _make(part, name))
    return authority, authority.parent / f"{name}.pem"


def _make(part: Path, name: str) -> None:
    folder = part.parent
    key, signed, request = (folder / f"{name}.{end}" for end in ("ca.key", "crt", "csr"))
    own = folder / f"{name}.key"

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *new, "-days", "2", "-keyout", str(key), "-out", str(part), "-subj", f"/CN=Authority {name}")
    openssl("req", *new, "-keyout", str(own), "-out", str(request), "-subj", f"/CN={name}")
    names = folder / f"{name}.names"
    names.write_text("subjectAltName=" + ",".join(f"DNS:{host}" for host in HOSTS))
    authority = ("-CA", str(part), "-CAkey", str(key), "-CAcreateserial", "-days", "2")
    openssl("x509", "-req", "-in", str(request), *authority, "-extfile", str(names), "-out", str(signed))
    (folder / f"{name}.pem").write_text(signed.read_text() + own.read_text())


@contextmanager
def chatting(certificate: Path | None) -> Iterator[Chats]:
    """Running chats, stopped at the end; without a certificate they speak HTTP."""
    with answering(Chats(certificate)) as server:
        try:
            yield server
        finally:
            server.let_go.set()


def leading(names: dict[str, list[tuple[str, int]]]) -> Callable[..., Any]:
    """A `socket.getaddrinfo` by which each of these names leads to these addresses and ports; others are unknown."""
    ask = socket.getaddrinfo

    def look(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        if host in names:
            kinds = {4: socket.AF_INET, 6: socket.AF_INET6}
            return [
                (
                    kinds[6 if ":" in address else 4],
                    socket.SOCK_STREAM,
                    6,
                    "",
                    (address, to) if ":" not in address else (address, to, 0, 0),
                )
                for address, to in names[host]
            ]
        if str(host).replace(".", "").isdigit() or ":" in str(host):
            return ask(host, port, family, type, proto, flags)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    return look
