"""A driver call that never comes back."""

import ctypes
from typing import Any

_kept: list[Any] = []


def stick() -> None:
    """Wait in C for ever, without the interpreter's lock, as a call does that waits for a GPU.

    It holds a lock that the process's exit handlers ask for, as those of a library do that shuts down in order: whoever ends by
    exit() then waits too.
    """
    libc = ctypes.CDLL(None)
    lock = ctypes.create_string_buffer(64)  # zeros are an initialised mutex; 40 bytes on x86-64, 48 on aarch64
    _kept.append(lock)
    libc.pthread_mutex_lock(lock)
    libc.__cxa_atexit(ctypes.cast(libc.pthread_mutex_lock, ctypes.c_void_p), ctypes.cast(lock, ctypes.c_void_p), None)
    libc.pthread_mutex_lock(lock)
