"""One heap for all threads of the process: with one each, which is glibc's way, what a thread gave back stays where others cannot use it."""

import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8  # malloc.h


def keep() -> bool:
    """True where the C library does so from now on; False where it knows no such thing, as musl. Before any thread is started."""
    try:
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1))
    except (AttributeError, OSError):
        return False
