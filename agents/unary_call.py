"""One gRPC call over a UNIX socket: one message there, one back, within bounds of time and size.

h2 speaks HTTP/2. gRPC's own library brings a core of 7 MB for each Python and processor and takes 20 MB of memory, which is more
than all else that the agent has of its own. The protocol: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
Calls block, so they belong into a thread of their own.
"""

import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import H2Error

MAX_BYTES: Final = 16 * 1024 * 1024
"""Of one answer, as the kubelet's own client takes it."""
_CHUNK: Final = 1 << 16
_PREFIX: Final = 5
"""Bytes before a message: whether it is compressed, and its length."""
_TEXT_MAX: Final = 200
# https://github.com/grpc/grpc/blob/master/doc/statuscodes.md
_REASON_OF_STATUS: Final = {
    "4": "timeout", "5": "not_found", "7": "not_permitted", "12": "unsupported", "14": "timeout", "16": "not_permitted",
}  # fmt: skip


class CallError(Exception):
    """The call brought nothing; `reason` is one of wire.metrics.REASONS, the message a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def call(path: Path, method: str, message: bytes = b"", deadline_s: float = 5.0, max_bytes: int = MAX_BYTES) -> bytes:
    """The answer of `method` (`/package.Service/Method`) at the socket `path`; CallError where there is none."""
    ends = time.monotonic() + deadline_s
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(deadline_s)
            connection.connect(str(path))
            return _Exchange(connection, path, method, max_bytes).run(message, ends)
    except TimeoutError:
        raise CallError("timeout", f"{path} did not answer within {deadline_s:g} s.") from None
    except FileNotFoundError:
        raise CallError("not_found", f"{path} is not there.") from None
    except PermissionError:
        raise CallError("not_permitted", f"{path} may not be asked by this user.") from None
    except OSError as error:
        raise CallError("not_found", f"{path} cannot be asked: {error.strerror or error}.") from None
    except H2Error as error:
        raise CallError("driver_error", f"{path} does not speak HTTP/2: {type(error).__name__}.") from None


class _Exchange:
    """One stream of one connection."""

    def __init__(self, connection: socket.socket, path: Path, method: str, max_bytes: int) -> None:
        self._connection = connection
        self._path = path
        self._method = method
        self._max_bytes = max_bytes
        self._body = bytearray()
        self._headers: dict[str, str] = {}
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))

    def run(self, message: bytes, ends: float) -> bytes:
        self._h2.initiate_connection()
        stream = self._h2.get_next_available_stream_id()
        self._h2.send_headers(
            stream,
            [
                (":method", "POST"), (":scheme", "http"), (":path", self._method), (":authority", "localhost"),
                ("content-type", "application/grpc"), ("te", "trailers"), ("user-agent", "fettle-agent"),
            ],
        )  # fmt: skip
        self._h2.send_data(stream, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=True)
        self._send()
        while True:
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._connection.settimeout(left)
            received = self._connection.recv(_CHUNK)
            if not received:
                raise CallError("driver_error", f"{self._path} broke off before its answer was whole.")
            is_over = self._take(self._h2.receive_data(received))
            if is_over:
                return self._answer()
            self._send()

    def _take(self, events: Iterable[Event]) -> bool:
        """True once the answer has ended."""
        for event in events:
            if isinstance(event, ResponseReceived | TrailersReceived):
                self._headers.update(_texts(event.headers or ()))
            elif isinstance(event, DataReceived):
                self._body += event.data or b""
                if len(self._body) > self._max_bytes + _PREFIX:
                    raise CallError("out_of_range", f"{self._path} answers with more than {self._max_bytes} bytes.")
                if event.flow_controlled_length:
                    self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id or 1)
            elif isinstance(event, StreamEnded):
                return True
            elif isinstance(event, StreamReset | ConnectionTerminated):
                raise CallError("driver_error", f"{self._path} broke the call off: HTTP/2 error {event.error_code}.")
        return False

    def _answer(self) -> bytes:
        told = self._headers
        if told.get(":status") != "200":
            raise CallError("driver_error", f"{self._path} answers with HTTP status {told.get(':status', '?')[:_TEXT_MAX]}.")
        status = told.get("grpc-status", "")
        if status != "0":
            why = unquote(told.get("grpc-message", ""))[:_TEXT_MAX]
            method = self._method.rpartition("/")[2]
            sentence = f"{self._path} refuses {method} with gRPC status {status[:3] or 'none'}: {why or 'it does not say why'}."
            raise CallError(_REASON_OF_STATUS.get(status, "driver_error"), sentence)
        if (
            len(self._body) < _PREFIX
            or self._body[0]
            or int.from_bytes(self._body[1:_PREFIX], "big") != len(self._body) - _PREFIX
        ):
            raise CallError("driver_error", f"{self._path} answers with what is no single plain message.")
        return bytes(memoryview(self._body)[_PREFIX:])

    def _send(self) -> None:
        if waiting := self._h2.data_to_send():
            self._connection.sendall(waiting)


def _texts(headers: Iterable[tuple[bytes | str, bytes | str]]) -> dict[str, str]:
    return {_text(name): _text(value) for name, value in headers}


def _text(word: bytes | str) -> str:
    return word.decode(errors="replace") if isinstance(word, bytes) else word
