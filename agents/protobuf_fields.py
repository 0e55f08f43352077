"""Protobuf's binary form, as far as messages of text, numbers and messages need it: https://protobuf.dev/programming-guides/encoding/."""

from collections.abc import Iterator
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
_WIDTH: Final = {FIXED64: 8, FIXED32: 4}


def fields(message: bytes | memoryview) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field, a fixed one as its bytes; ValueError for what is no message, and where it ends too early.

    Fields inside a field are read by calling this with its bytes: what nobody asks for is never looked into.
    """
    view = memoryview(message)
    at, end = 0, len(view)
    try:
        while at < end:
            tag, at = _varint(view, at)
            kind = tag & 7
            if kind == VARINT:
                value, at = _varint(view, at)
                yield tag >> 3, value
                continue
            if kind == BYTES:
                size, at = _varint(view, at)
            elif kind in _WIDTH:
                size = _WIDTH[kind]
            else:
                raise ValueError(f"wire type {kind}")
            if at + size > end:
                raise ValueError("a field is longer than its message")
            yield tag >> 3, bytes(view[at : at + size])
            at += size
    except IndexError:
        raise ValueError("a message ends inside a field") from None


def _varint(view: memoryview, at: int) -> tuple[int, int]:
    number = 0
    for place in range(10):
        byte = view[at + place]
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, at + place + 1
    raise ValueError("a varint of more than 10 bytes")
