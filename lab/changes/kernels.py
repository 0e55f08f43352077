"""Before and after: copies, launches, batches and number formats on one GPU."""

from typing import Final

import torch

from lab.loop import Measured, program, timed
from lab.models import block, graphed, step_of, transformer

COPIED_BYTES: Final = 1 << 29
SEQUENCES, TOKENS, WIDTH = 16, 512, 1024


def _copying(seconds: float, *, pinned: bool) -> Measured:
    """Send half a GiB to the GPU, then multiply for about as long as a fast copy takes."""
    host = torch.ones(COPIED_BYTES // 4, dtype=torch.float32, pin_memory=pinned)
    device = torch.empty_like(host, device="cuda")
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        device.copy_(host, non_blocking=pinned)
        for _ in range(12):
            torch.mm(a, a)

    return timed(seconds, step, "batches", 1)


@program
def pageable_batches(seconds: float) -> Measured:
    """copy: batches come from pageable memory, and the host waits for each."""
    return _copying(seconds, pinned=False)


@program
def pinned_batches(seconds: float) -> Measured:
    """The same from pinned memory, without waiting."""
    return _copying(seconds, pinned=True)


def _small_layers(seconds: float, *, graph: bool) -> Measured:
    model = block(256, 24)
    x = torch.randn(32, 256, device="cuda")
    if not graph:
        return timed(seconds, step_of(model, torch.optim.AdamW(model.parameters()), lambda: x, bf16=False), "steps", 1)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, capturable=True)
    step = step_of(model, optimizer, lambda: x, bf16=False)
    return timed(seconds, graphed(step), "steps", 1)


@program
def small_layers_eager(seconds: float) -> Measured:
    """launch: training of 24 small blocks, one kernel after another."""
    return _small_layers(seconds, graph=False)


@program
def small_layers_graphed(seconds: float) -> Measured:
    """The same step as a CUDA graph, with the fused optimizer."""
    return _small_layers(seconds, graph=True)


def _batched(seconds: float, rows: int) -> Measured:
    """A small model's forward pass as a CUDA graph, so that launching is no matter."""
    model = block(512, 24, torch.bfloat16).eval()
    x = torch.randn(rows, 512, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        with torch.no_grad():
            model(x)

    return timed(seconds, graphed(step), "samples", rows)


@program
def small_batch(seconds: float) -> Measured:
    """underfilled: 16 samples at once."""
    return _batched(seconds, 16)


@program
def large_batch(seconds: float) -> Measured:
    """The batch doubled seven times."""
    return _batched(seconds, 2048)


def _precision(seconds: float, precision: str, *, bf16: bool = False) -> Measured:
    torch.set_float32_matmul_precision(precision)
    model = transformer(WIDTH, 12)
    x = torch.randn(SEQUENCES, TOKENS, WIDTH, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return timed(seconds, step_of(model, optimizer, lambda: x, bf16=bf16), "tokens", SEQUENCES * TOKENS)


@program
def transformer_fp32(seconds: float) -> Measured:
    """compute: a transformer of 151 million parameters in fp32, TF32 off."""
    return _precision(seconds, "highest")


@program
def transformer_tf32(seconds: float) -> Measured:
    """The same with TF32 products."""
    return _precision(seconds, "high")


@program
def transformer_bf16(seconds: float) -> Measured:
    """The same under bf16 autocast."""
    return _precision(seconds, "highest", bf16=True)
