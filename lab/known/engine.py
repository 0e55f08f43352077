"""Programs that keep the GPU's units busy, each in its way."""

import torch
from torch import nn

from lab.loop import program, repeat
from lab.models import block, resnet, train


@program
def elementwise_stream(seconds: float) -> int:
    """memory_bandwidth: elementwise kernels over 4 GiB tensors."""
    a = torch.randn(1 << 30, device="cuda", dtype=torch.bfloat16)
    b = torch.randn_like(a)

    def step() -> None:
        torch.add(a, b, alpha=0.5, out=b)

    return repeat(seconds, step)


@program
def healthy_resnet_synthetic(seconds: float) -> int:
    """compute or memory_bandwidth: ResNet-50 in bf16 on images that already lie on the GPU."""
    images = torch.randn(256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    return train(resnet(), lambda: images, seconds, bf16=True)


@program
def fp32_mlp(seconds: float) -> int:
    """compute: large matrix products in fp32 with TF32 off."""
    torch.backends.cuda.matmul.allow_tf32 = False
    x = torch.randn(16384, 2048, device="cuda")
    return train(block(2048, 8), lambda: x, seconds, bf16=False)


@program
def healthy_bf16_mlp(seconds: float) -> int:
    """compute: the same in bf16, healthy."""
    x = torch.randn(32768, 4096, device="cuda")
    return train(block(4096, 6), lambda: x, seconds, bf16=True)


@program
def fp64_products(seconds: float) -> int:
    """compute: double-precision matrix products, as in HPC codes."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.float64)
    return repeat(seconds, lambda: torch.mm(a, a))


@program
def int8_products(seconds: float) -> int:
    """compute: int8 matrix products, as quantised inference does in batches."""
    a = torch.randint(-128, 127, (8192, 8192), device="cuda", dtype=torch.int8)
    return repeat(seconds, lambda: torch._int_mm(a, a))


@program
def decode_b16(seconds: float) -> int:
    """memory_bandwidth: weight-streaming decode of a 7 GB bf16 stack at batch 16, in a CUDA graph."""
    weights = [torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(52)]
    x = torch.randn(16, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(3):
        x @ weights[0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
    return repeat(seconds, graph.replay)


@program
def embedding_gather(seconds: float) -> int:
    """memory_bandwidth: random rows gathered from a 16 GB table."""
    table = torch.randn(1 << 25, 128, device="cuda")
    rows = torch.randint(0, 1 << 25, (1 << 22,), device="cuda")
    return repeat(seconds, lambda: table[rows].sum(1))


@program
def few_blocks(seconds: float) -> int:
    """underfilled: a captured graph of small products that fill a few SMs; the engine never idles."""
    a = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        a @ a
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x = a
        for _ in range(2000):
            x = (x @ a) * 0.01
    return repeat(seconds, graph.replay)


@program
def small_cudnn_lstm(seconds: float) -> int:
    """underfilled: cuDNN's own LSTM, long sequence, batch 4: one small kernel after another, queued far ahead."""
    lstm = nn.LSTM(512, 512, 2).cuda()
    x = torch.randn(2000, 4, 512, device="cuda")

    def step() -> None:
        with torch.no_grad():
            lstm(x)

    return repeat(seconds, step)
