"""The programs of the lab by name, and the loops that they run."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch

AHEAD: Final = 3
"""Steps that the host may queue before the GPU has done them: a loop that is timed must end soon after its time."""
WARM_UP_S: Final = 2.0


@dataclass(frozen=True)
class Measured:
    """What a program did once it was warm. `memory_growth_bytes`, `held_bytes`, `peak_share`: where speed is not the matter."""

    unit: str
    units: float
    seconds: float
    memory_growth_bytes: float | None = None
    held_bytes: float | None = None
    peak_share: float | None = None

    def as_json(self) -> dict[str, Any]:
        """What is known of it."""
        return {name: value for name, value in asdict(self).items() if value is not None}


Program = Callable[..., "int | Measured"]
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


def work(seconds: float, step: Callable[[], object], least: int = 1) -> int:
    """As `repeat`, at most AHEAD steps queued, at least `least` calls."""
    end, calls = time.monotonic() + seconds, 0
    queued: deque[torch.cuda.Event] = deque()
    while calls < least or time.monotonic() < end:
        step()
        calls += 1
        event = torch.cuda.Event()
        event.record()
        queued.append(event)
        if len(queued) > AHEAD:
            queued.popleft().synchronize()
    torch.cuda.synchronize()
    return calls


def timed(seconds: float, step: Callable[[], object], unit: str, units_a_step: float, warm_up_s: float = WARM_UP_S) -> Measured:
    """The speed of `step` over `seconds`, after a warm-up that does not count."""
    work(warm_up_s, step, least=3)
    began = time.monotonic()
    steps = work(seconds, step)
    return Measured(unit, steps * units_a_step, time.monotonic() - began)
