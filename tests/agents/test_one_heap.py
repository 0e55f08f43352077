"""The agent's threads share one heap, as the C library itself counts them."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, sys, threading
from agents import one_heap
kept = one_heap.keep() if sys.argv[1] == "one" else None
gate = threading.Barrier(5)
def work():
    held = [bytes(5000) for _ in range(100)]
    gate.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
gate.wait()
for thread in threads: thread.join()
c = ctypes.CDLL(None)
c.malloc_info(0, ctypes.c_void_p.in_dll(c, "stdout"))
c.fflush(None)
sys.exit(0 if kept in (None, True) else 1)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap")
def test_threads_share_one_heap() -> None:
    """Without it each of them has its own."""
    heaps = {
        how: subprocess.run([sys.executable, "-c", PROGRAM, how], check=True, capture_output=True, text=True).stdout.count(
            "<heap nr="
        )
        for how in ("one", "each")
    }

    assert heaps["one"] == 1
    assert heaps["each"] > 1
