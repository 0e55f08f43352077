"""The tests of one GPU, by torch: products, its memory, copies to the host and to another GPU. One process has one GPU."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from agents.bench import cases
from agents.bench.arithmetic import matmul_flop, rates
from agents.bench.cases import Case
from agents.bench.timing import Times, TooSlowError, within
from wire.bench import Score, Unit
from wire.sentence import _

Measured = tuple[Score, float, float]
"""A score, and when it was timed."""
_NAMES: Final = {
    "fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn", "int8": "int8",
}  # fmt: skip


class NoScoreError(Exception):
    """A test cannot be done here; the message is a sentence."""


def measure(torch: Any, index: int, case: Case) -> Measured:
    """The score of one case on GPU number `index` of this process; NoScoreError, or torch's own error, where there is none."""
    if case.kind == "matmul":
        return matmul(torch, index, case)
    if case.kind == "memory":
        return memory(torch, index, case)
    if case.kind == "host":
        return host(torch, index, case)
    return peer(torch, index, case)


def score(case: Case, times: Times, amount: float, unit: Unit) -> Measured:
    """What the times of one case come to."""
    found = rates(times.each_s, amount)
    told = Score(
        name=case.name,
        value=found.value,
        p5=found.p5,
        p95=found.p95,
        unit=unit,
        iterations=len(times.each_s),
        warm_up=times.warm_up,
    )
    return told, times.began, times.ended


def matmul(torch: Any, index: int, case: Case) -> Measured:
    """A product of random matrices: of zeros it would be faster, for it would take less power."""
    tried = [case]
    if case.m == case.n == case.k:  # smaller ones bear another name, so that scores of one name compare
        tried += [cases.matmul(case.dtype, edge, edge, edge, case.budget_s) for edge in cases.EDGES if edge < case.m]
    why = "it does not fit into the GPU's free memory"
    for one in tried:
        size = cases.ELEMENT_BYTES[one.dtype]
        needed = size * (one.m * one.k + one.k * one.n) + max(2, size) * one.m * one.n
        if one.dtype in ("fp8", "int8"):
            needed += 4 * max(one.m * one.k, one.k * one.n)  # the random numbers that they are made of
        if needed * 1.2 > torch.cuda.mem_get_info(index)[0]:
            continue
        torch.set_float32_matmul_precision("high" if one.dtype == "tf32" else "highest")
        try:
            times = within(torch, product(torch, index, one), one.budget_s)
        except TooSlowError as error:
            why = str(error)
            continue
        return score(one, times, matmul_flop(one.m, one.n, one.k), "flop_per_second")
    raise NoScoreError(why)


def product(torch: Any, index: int, case: Case) -> Callable[[], object]:
    """The operation that is timed."""
    device = f"cuda:{index}"
    m, n, k = case.m, case.n, case.k
    if case.dtype == "int8":
        whole = {"dtype": torch.int8, "device": device}
        left, right = torch.randint(-64, 64, (m, k), **whole), torch.randint(-64, 64, (n, k), **whole).t()
        return lambda: torch._int_mm(left, right)
    kind = getattr(torch, _NAMES[case.dtype], None)
    if kind is None:
        raise NoScoreError(f"this torch knows no {_NAMES[case.dtype]}")
    if case.dtype == "fp8":
        if not hasattr(torch, "_scaled_mm"):
            raise NoScoreError(_("this torch has no _scaled_mm, by which it multiplies fp8"))
        left = torch.randn(m, k, device=device, dtype=torch.float32).to(kind)
        right = torch.randn(n, k, device=device, dtype=torch.float32).to(kind).t()
        one = torch.ones((), device=device, dtype=torch.float32)
        # sums as inference has them; those of full precision are slower
        return lambda: torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
    left, right = torch.randn(m, k, device=device, dtype=kind), torch.randn(k, n, device=device, dtype=kind)
    out = torch.empty(m, n, device=device, dtype=kind)
    return lambda: torch.matmul(left, right, out=out)


def memory(torch: Any, index: int, case: Case) -> Measured:
    """Bytes read and written by a copy (2 of each byte) or a triad a = b + s * c (3)."""
    buffers = 2 if case.way == "copy" else 3
    free = torch.cuda.mem_get_info(index)[0]
    size = min(case.size_bytes, int(free * 0.9) // buffers // cases.MIB * cases.MIB)
    if size < 64 * cases.MIB:
        raise NoScoreError(_("the GPU has less free memory than its caches would hide"))
    first, second, *rest = (torch.ones(size // 4, device=f"cuda:{index}", dtype=torch.float32) for _number in range(buffers))
    if case.way == "copy":
        times = within(torch, lambda: first.copy_(second), case.budget_s)
    else:
        times = within(torch, lambda: torch.add(first, second, alpha=3.0, out=rest[0]), case.budget_s)
    return score(case, times, float(buffers * size), "bytes_per_second")


def host(torch: Any, index: int, case: Case) -> Measured:
    """A copy from or to memory of the host, touched before."""
    there = torch.ones(case.size_bytes, device=f"cuda:{index}", dtype=torch.uint8)
    here = torch.ones(case.size_bytes, dtype=torch.uint8, pin_memory=case.pinned)
    into, out_of = (there, here) if case.way == "h2d" else (here, there)
    times = within(torch, lambda: into.copy_(out_of, non_blocking=case.pinned), case.budget_s, wall=not case.pinned)
    return score(case, times, float(case.size_bytes), "bytes_per_second")


def peer(torch: Any, index: int, case: Case) -> Measured:
    """A copy to another GPU; through the host where the two do not reach each other."""
    here = torch.ones(case.size_bytes, device=f"cuda:{index}", dtype=torch.uint8)
    there = torch.ones(case.size_bytes, device=f"cuda:{case.peer}", dtype=torch.uint8)
    times = within(torch, lambda: there.copy_(here, non_blocking=True), case.budget_s)
    return score(case, times, float(case.size_bytes), "bytes_per_second")


def soak(torch: Any, index: int, capability: tuple[int, int]) -> Iterator[None]:
    """Load the GPU as a training does, some 50 ms between two steps, for as long as it is asked to go on."""
    dtype = torch.bfloat16 if capability >= (8, 0) else torch.float16
    edge = 8192 if torch.cuda.mem_get_info(index)[0] > 2 << 30 else 2048
    left = torch.randn(edge, edge, device=f"cuda:{index}", dtype=dtype)
    out = torch.empty_like(left)
    rounds = 1
    for step in range(1 << 30):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _number in range(rounds):
            torch.matmul(left, left, out=out)
        last.record()
        torch.cuda.synchronize()
        if step == 1:
            rounds = max(1, min(1000, int(50 / max(first.elapsed_time(last), 0.05))))
        yield


def reason(torch: Any, error: BaseException) -> str:
    """Why a test has no score, in a sentence of one line."""
    if isinstance(error, torch.cuda.OutOfMemoryError):
        return _("the GPU has not enough free memory for it")
    text = " ".join(str(error).split()) or type(error).__name__
    if "out of memory" in text:
        return "memory for it could not be had: " + text[:200]
    return text[:280]
