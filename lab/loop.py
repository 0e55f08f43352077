"""The programs of the lab by name, and the loop that they run."""

import time
from collections.abc import Callable

import torch

Program = Callable[[float], int]
PROGRAMS: dict[str, Program] = {}


def program(run: Program) -> Program:
    """Register a program under its name."""
    PROGRAMS[run.__name__] = run
    return run


def repeat(seconds: float, step: Callable[[], object]) -> int:
    """Call `step` for `seconds`; the number of calls."""
    end, calls = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        step()
        calls += 1
        if calls % 20 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return calls
