"""Times of one operation on the GPU, by CUDA events; `torch` is the module, or what stands for it in tests."""

import time
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from agents.bench.arithmetic import iterations

AHEAD_CYCLES: Final = 20_000_000
"""About 10 ms in which the GPU spins while the host queues what is timed: else small operations wait for their launch."""

LONGEST_S: Final = 10.0
"""What a slow test may take where its budget is smaller."""


class Times(Struct, frozen=True):
    """Seconds of each timed iteration, how many went before them, and when they were timed, in epoch seconds."""

    each_s: list[float]
    warm_up: int
    began: float
    ended: float


class TooSlowError(Exception):
    """One iteration takes so long that even the fewest do not fit."""


def one_s(torch: Any, op: Callable[[], object]) -> float:
    """Seconds of one iteration by the wall clock; the first, which loads and chooses kernels, is not counted."""
    op()
    torch.cuda.synchronize()
    began = time.perf_counter()
    op()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def by_events(torch: Any, op: Callable[[], object], counts: tuple[int, int]) -> Times:
    """Warm up and time `op` on the current stream; `counts` as of `iterations`."""
    warm_up, timed = counts
    for _ in range(warm_up):
        op()
    pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(timed)]
    torch.cuda.synchronize()
    began = time.time()
    if (spin := getattr(torch.cuda, "_sleep", None)) is not None:
        spin(AHEAD_CYCLES)
    for first, last in pairs:
        first.record()
        op()
        last.record()
    torch.cuda.synchronize()
    ended = time.time()
    return Times([first.elapsed_time(last) / 1e3 for first, last in pairs], warm_up, began, ended)


def by_wall(torch: Any, op: Callable[[], object], counts: tuple[int, int]) -> Times:
    """The same by the wall clock, for copies of pageable memory, which the host works at."""
    warm_up, timed = counts
    for _ in range(warm_up):
        op()
    torch.cuda.synchronize()
    each: list[float] = []
    began = time.time()
    for _ in range(timed):
        first = time.perf_counter()
        op()
        torch.cuda.synchronize()
        each.append(time.perf_counter() - first)
    return Times(each, warm_up, began, time.time())


def within(torch: Any, op: Callable[[], object], budget_s: float, *, wall: bool = False) -> Times:
    """Times of as many iterations as fit into `budget_s`; TooSlowError where the fewest take far longer."""
    took = one_s(torch, op)
    warm_up, timed = iterations(took, budget_s)
    if took * (warm_up + timed) > max(3 * budget_s, LONGEST_S):
        raise TooSlowError(f"one iteration takes {took:.2g} s")
    return (by_wall if wall else by_events)(torch, op, (warm_up, timed))
