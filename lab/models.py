"""Models that programs of the lab train."""

from collections.abc import Callable

import torch
from torch import nn

from lab.loop import repeat


def block(width: int, depth: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width)]
    return nn.Sequential(*layers).to("cuda", dtype)


def train(model: nn.Module, batch: Callable[[], torch.Tensor], seconds: float, *, bf16: bool) -> int:
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            loss = model(batch()).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return repeat(seconds, step)


def resnet() -> nn.Module:
    from torchvision.models import resnet50

    return resnet50().cuda().to(memory_format=torch.channels_last)
