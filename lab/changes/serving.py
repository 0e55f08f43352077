"""Before and after: decoding, where each token reads every weight."""

from collections.abc import Callable
from typing import Final

import torch
from torch.nn import functional

from lab.loop import Measured, program, timed
from lab.models import graphed

WIDTH, HIDDEN, LAYERS = 8192, 28672, 8  # 3.8 billion weights, the shape of a large model's feed-forward layers
SEQUENCES: Final = 8
FP8_ROWS: Final = 32  # its kernels are slow below 17 rows: the rest is padding and counts nothing

Linear = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def _decoded(seconds: float, sequences: int, rows: int, dtype: torch.dtype, linear: Linear) -> Measured:
    weights = [
        (
            (torch.randn(HIDDEN, WIDTH, device="cuda", dtype=torch.bfloat16) * 0.01).to(dtype),
            (torch.randn(WIDTH, HIDDEN, device="cuda", dtype=torch.bfloat16) * 0.01).to(dtype),
        )
        for _ in range(LAYERS)
    ]
    first = torch.randn(rows, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        x = first
        for up, down in weights:
            x = functional.layer_norm(x + linear(functional.gelu(linear(x, up)), down), (WIDTH,))

    with torch.no_grad():
        return timed(seconds, graphed(step), "tokens", sequences)


@program
def decode_16_bit(seconds: float) -> Measured:
    """memory_bandwidth: 16-bit weights, 8 sequences at once."""
    return _decoded(seconds, SEQUENCES, SEQUENCES, torch.bfloat16, functional.linear)


@program
def decode_fp8(seconds: float) -> Measured:
    """The same 8 sequences with weights and activations in fp8."""
    one = torch.ones((), device="cuda")

    def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(
            x.to(torch.float8_e4m3fn), weight.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return _decoded(seconds, SEQUENCES, FP8_ROWS, torch.float8_e4m3fn, linear)


@program
def decode_batched(seconds: float) -> Measured:
    """16-bit weights, 64 sequences at once."""
    return _decoded(seconds, 64, 64, torch.bfloat16, functional.linear)
