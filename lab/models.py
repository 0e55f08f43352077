"""Models that programs of the lab train."""

from collections.abc import Callable

import torch
from torch import nn

from lab.loop import repeat


def block(width: int, depth: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    """`depth` blocks of two linear layers, made on the GPU: a host takes seconds for a billion random weights."""
    layers: list[nn.Module] = []
    with torch.device("cuda"):
        for _ in range(depth):
            layers += [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width)]
    return nn.Sequential(*layers).to("cuda", dtype)


def transformer(width: int, depth: int, heads: int = 16) -> nn.Module:
    """An encoder without dropout, batch first."""
    with torch.device("cuda"):
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        return nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)


def step_of(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch: Callable[[], torch.Tensor], *, bf16: bool
) -> Callable[[], None]:
    """One step of training."""

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            loss = model(batch()).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def train(model: nn.Module, batch: Callable[[], torch.Tensor], seconds: float, *, bf16: bool) -> int:
    """Train for `seconds`; the number of steps."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    return repeat(seconds, step_of(model, optimizer, batch, bf16=bf16))


def resnet() -> nn.Module:
    """ResNet-50 in the layout that tensor cores want."""
    from torchvision.models import resnet50

    return resnet50().cuda().to(memory_format=torch.channels_last)


def graphed(step: Callable[[], object]) -> Callable[[], None]:
    """`step` as a CUDA graph, called three times before. The caller keeps what it works on alive, as it keeps `step`."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay
