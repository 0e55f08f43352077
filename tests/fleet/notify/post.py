"""A mail server for tests: it takes mails by SMTP on loopback and keeps them."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage


class Post(socketserver.ThreadingTCPServer):
    """`refuses`: what it answers instead of taking a mail, such as "550 no such box"."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.mails: list[EmailMessage] = []
        self.refuses = ""

    @property
    def url(self) -> str:
        """Its Apprise URL, without TLS and login."""
        return f"mailto://ops:pass@example.org?smtp=127.0.0.1&port={self.server_address[1]}&mode=insecure&to=gpu@example.org"


class _Talk(socketserver.StreamRequestHandler):
    server: Post

    def handle(self) -> None:
        """Answer as RFC 5321 says, in short."""
        self.say("220 post.example.org ESMTP")
        while line := self.rfile.readline():
            verb = line.split(b" ")[0].strip().upper()
            if verb == b"DATA":
                self.say("354 go on")
                raw = b""
                while (part := self.rfile.readline()) not in (b".\r\n", b""):
                    raw += part.removeprefix(b".")
                if not self.server.refuses:
                    self.server.mails.append(message_from_bytes(raw, policy=policy.default))
                self.say(self.server.refuses or "250 taken")
            elif verb == b"AUTH":
                self.say("235 welcome")
            elif verb == b"EHLO":
                self.wfile.write(b"250-post.example.org\r\n250 AUTH PLAIN LOGIN\r\n")
            else:
                self.say("221 bye" if verb == b"QUIT" else "250 ok")
            if verb == b"QUIT":
                return

    def say(self, line: str) -> None:
        """One line of an answer."""
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def post() -> Iterator[Post]:
    """A running mail server, stopped at the end."""
    with Post() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
