"""Frames to bytes and back; every refusal is a WireError with a code that both sides know."""

import re
from typing import Any, Final, Protocol, TypeVar

import msgspec

from wire.messages import FromAgent, FromServer

MAX_FRAME_BYTES: Final = 256 * 1024
"""A larger frame gets an error frame and is dropped."""
MAX_SOCKET_BYTES: Final = 1024 * 1024
"""A larger frame closes the socket."""

CODES: Final = {
    "malformed": "The frame is not msgpack or JSON of a known message.",
    "too_large": "The frame is larger than 256 kB.",
    "need_hello": "The batch's schema is unknown on this connection: say hello again.",
    "wrong_node": "The frame speaks for another node than the token.",
    "wrong_boot": "The frame belongs to another boot than the hello.",
    "wrong_shape": "A column's length does not match the hello.",
    "bad_time": "The batch's time is outside what the server accepts.",
    "unknown_metric": "The hello lists a metric that is not in the registry.",
    "bad_hello": "The hello contradicts itself: its schema, its GPUs or its version.",
    "busy": "The server's queue is full; the batch was not read. Send it again later.",
}


class WireError(Exception):
    """A frame that cannot be taken; `code` is a key of CODES, `seq` the batch's where it could be read."""

    def __init__(self, code: str, detail: str, seq: int | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.seq = seq


Message = TypeVar("Message", covariant=True)


class _Decoder(Protocol[Message]):
    """What msgspec's two decoders have in common."""

    def decode(self, frame: Any, /) -> Message: ...


_msgpack_encoder = msgspec.msgpack.Encoder()
_json_encoder = msgspec.json.Encoder()
# by isinstance(frame, str): a binary frame is msgpack, a text frame JSON
_from_agent: tuple[_Decoder[FromAgent], _Decoder[FromAgent]] = (
    msgspec.msgpack.Decoder(FromAgent),
    msgspec.json.Decoder(FromAgent),
)
_from_server: tuple[_Decoder[FromServer], _Decoder[FromServer]] = (
    msgspec.msgpack.Decoder(FromServer),
    msgspec.json.Decoder(FromServer),
)


def encode(message: FromAgent | FromServer) -> bytes:
    """Msgpack of one message."""
    return _msgpack_encoder.encode(message)


def encode_text(message: FromAgent | FromServer) -> str:
    """JSON of one message."""
    return _json_encoder.encode(message).decode()


def decode_from_agent(frame: bytes | str) -> FromAgent:
    """The message in a frame that an agent sent; WireError when it is too large or is not one."""
    return _decode(frame, _from_agent)


def decode_from_server(frame: bytes | str) -> FromServer:
    """The message in a frame that the server sent; WireError when it is too large or is not one."""
    return _decode(frame, _from_server)


def _decode(frame: bytes | str, decoders: tuple[_Decoder[Message], _Decoder[Message]]) -> Message:
    size = len(frame)
    if size > MAX_FRAME_BYTES:
        raise WireError("too_large", f"{size} bytes where {MAX_FRAME_BYTES} are allowed", _seq_of(frame))
    try:
        return decoders[isinstance(frame, str)].decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise WireError("malformed", str(error), _seq_of(frame)) from error


_SEQ = re.compile(r'"seq":\s*(\d{1,18})')


def _seq_of(frame: bytes | str) -> int | None:
    """The seq of a frame that does not decode, so that its sender can drop just that one."""
    if isinstance(frame, str):
        found = _SEQ.search(frame)
        return int(found[1]) if found else None
    try:
        raw = msgspec.msgpack.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    seq = raw.get("seq") if isinstance(raw, dict) else None
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and seq >= 0 else None
