"""Programs of which GPU memory is the matter."""

import torch

from lab.loop import program, repeat
from lab.models import block, train


@program
def graph_leak(seconds: float) -> int:
    """compute with a leak: bf16 training that keeps 48 MB of activations alive each step."""
    model, kept = block(2048, 6), []
    x = torch.randn(8192, 2048, device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            out = model(x)
        out.float().square().mean().backward()
        model.zero_grad(set_to_none=True)
        kept.append(out.detach().clone()[: 12 << 10])

    return repeat(seconds, step)


@program
def nearly_full_training(seconds: float) -> int:
    """compute, healthy but for memory: 96 % of the card is taken."""
    free, _total = torch.cuda.mem_get_info()
    ballast = torch.empty(int(free * 0.88), dtype=torch.uint8, device="cuda")
    x = torch.randn(16384, 2048, device="cuda")
    done = train(block(2048, 8), lambda: x, seconds, bf16=True)
    return done + 0 * len(ballast)
