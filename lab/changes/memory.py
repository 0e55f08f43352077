"""Before and after: programs of which GPU memory is the matter, and GPUs that are shared."""

import gc
import time
from dataclasses import replace
from typing import Any, Final

import torch

from lab.loop import WARM_UP_S, Measured, program, timed, work
from lab.models import block, step_of

FULL: Final = 0.945
"""Share of the card that the large batch is made to take: above 0.91 the rule speaks, and fragments need some room."""


def _evaluated(seconds: float, *, keep: bool) -> Measured:
    """Losses of an evaluation that waits 10 ms for each batch."""
    model = block(1024, 4)
    x = torch.randn(128, 1024, device="cuda")
    losses: list[Any] = []

    def step() -> None:
        time.sleep(0.01)
        loss = model(x).square().mean()
        losses.append(loss if keep else loss.item())

    work(WARM_UP_S, step)
    held, began = torch.cuda.memory_allocated(), time.monotonic()
    steps = work(seconds, step)
    return Measured("batches", steps, time.monotonic() - began, memory_growth_bytes=torch.cuda.memory_allocated() - held)


@program
def losses_kept(seconds: float) -> Measured:
    """idle with a leak: each loss is kept with its graph, 20 MB of activations."""
    return _evaluated(seconds, keep=True)


@program
def losses_as_numbers(seconds: float) -> Measured:
    """The same with `.item()`."""
    return _evaluated(seconds, keep=False)


def _notebook(seconds: float, *, free: bool) -> Measured:
    kept = torch.randn(1 << 31, device="cuda")
    torch.mean(kept[:1000]).item()
    if free:
        del kept
        gc.collect()
        torch.cuda.empty_cache()
    time.sleep(WARM_UP_S + seconds)
    return Measured("answers", 1, WARM_UP_S + seconds, held_bytes=torch.cuda.memory_reserved())


@program
def notebook_holds(seconds: float) -> Measured:
    """idle: 8 GiB held after one short computation."""
    return _notebook(seconds, free=False)


@program
def notebook_frees(seconds: float) -> Measured:
    """The same with the memory given back."""
    return _notebook(seconds, free=True)


class _Filler:
    """A training whose activations fill what its batch asks for."""

    def __init__(self) -> None:
        self.model = block(1024, 12)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)

    def accumulate(self, x: torch.Tensor) -> None:
        """Forward and backward."""
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.model(x).float().square().mean()
        loss.backward()

    def update(self) -> None:
        """The optimizer's part."""
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def peak_bytes(self, rows: int) -> int:
        """Memory that a step of `rows` takes at its peak."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.accumulate(torch.randn(rows, 1024, device="cuda"))
        self.update()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_reserved()

    def rows_to_fill(self) -> int:
        """Rows whose step takes FULL of the card, what others hold of it counted."""
        small, large = self.peak_bytes(1 << 14), self.peak_bytes(1 << 15)
        a_row = (large - small) / (1 << 14)
        free, total = torch.cuda.mem_get_info()
        others = total - free - torch.cuda.memory_reserved()
        torch.cuda.empty_cache()
        return int((FULL * total - others - large) / a_row) + (1 << 15)


def _accumulated(filler: _Filler, seconds: float, rows: int, parts: int) -> Measured:
    x = torch.randn(rows // parts, 1024, device="cuda")

    def step() -> None:
        for _ in range(parts):
            filler.accumulate(x)
        filler.update()

    done = timed(seconds, step, "rows", rows)
    free, total = torch.cuda.mem_get_info()
    return replace(done, peak_share=1 - free / total)


def _filled(seconds: float, parts: int) -> Measured:
    filler = _Filler()
    rows = filler.rows_to_fill()
    for _ in range(4):
        try:
            return _accumulated(filler, seconds, rows, parts)
        except torch.cuda.OutOfMemoryError:  # fragments took more than was left: a smaller batch
            rows = int(rows * 0.98)
        filler.optimizer.zero_grad(set_to_none=True)
        gc.collect()
        torch.cuda.empty_cache()
    raise RuntimeError("no batch that fills the card fitted on it")


@program
def batch_fills_card(seconds: float) -> Measured:
    """compute, healthy but for memory: the batch takes 94 % of the card."""
    return _filled(seconds, 1)


@program
def half_batch_twice(seconds: float) -> Measured:
    """The same batch in two halves, accumulated."""
    return _filled(seconds, 2)


def _tenant(ready: Any, stop: Any) -> None:
    model = block(2048, 6)
    x = torch.randn(8192, 2048, device="cuda")
    step = step_of(model, torch.optim.AdamW(model.parameters(), fused=True), lambda: x, bf16=True)
    work(0.5, step, least=3)
    ready.set()
    while not stop.is_set():
        work(0.2, step)


def _alone(seconds: float) -> Measured:
    model = block(2048, 6)
    x = torch.randn(8192, 2048, device="cuda")
    step = step_of(model, torch.optim.AdamW(model.parameters(), fused=True), lambda: x, bf16=True)
    return timed(seconds, step, "rows", 8192)


@program
def training_beside_another(seconds: float) -> Measured:
    """contention: another process trains on the same GPU."""
    spawn = torch.multiprocessing.get_context("spawn")
    ready, stop = spawn.Event(), spawn.Event()
    other = spawn.Process(target=_tenant, args=(ready, stop), daemon=True)
    other.start()
    try:
        if not ready.wait(60):
            raise RuntimeError("the other tenant did not start")
        return _alone(seconds)
    finally:
        stop.set()
        other.join(20)


@program
def training_alone(seconds: float) -> Measured:
    """The same training with the GPU to itself."""
    return _alone(seconds)
