"""Programs whose GPU waits for the host to launch, or for anybody to ask."""

import time

import torch
from torch import nn

from lab.loop import program, repeat
from lab.models import block


@program
def eager_lstm_cells(seconds: float) -> int:
    """launch: an LSTM cell called step by step from Python, batch 16."""
    cell = nn.LSTMCell(128, 128).cuda()
    x = torch.randn(16, 128, device="cuda")

    def step() -> None:
        h = c = torch.zeros(16, 128, device="cuda")
        for _ in range(50):
            h, c = cell(x, (h, c))
        h.sum().backward()

    return repeat(seconds, step)


@program
def eager_small_decode(seconds: float) -> int:
    """launch: a small transformer generates token by token, eagerly, batch 1."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda().bfloat16().eval()
    x = torch.randn(1, 16, 512, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        with torch.no_grad():
            model(x)[:, -1].argmax().item()

    return repeat(seconds, step)


@program
def item_every_layer(seconds: float) -> int:
    """launch: `.item()` after every small layer drains the queue each time."""
    model = block(512, 12)
    x = torch.randn(64, 512, device="cuda")

    def step() -> None:
        y = x
        for layer in model:  # type: ignore[attr-defined]
            y = layer(y)
            if y.mean().item() > 1e9:
                raise FloatingPointError("diverged")

    return repeat(seconds, step)


@program
def hugging_face_generate(seconds: float) -> int:
    """launch: GPT-2's shape, random weights, `generate` token by token for one short prompt."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).cuda().bfloat16().eval()
    prompt = torch.randint(0, 50000, (1, 32), device="cuda")

    def step() -> None:
        with torch.no_grad():
            model.generate(prompt, max_new_tokens=64, do_sample=False, pad_token_id=0)

    return repeat(seconds, step)


@program
def idle_notebook(seconds: float) -> int:
    """idle: 8 GB held after one short computation; then nothing."""
    kept = torch.randn(1 << 31, device="cuda")
    (kept[:1000] * 2).sum().item()
    time.sleep(seconds)
    return len(kept) > 0


@program
def sparse_requests(seconds: float) -> int:
    """idle: a server that answers a 10 ms request twice a second."""
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        for _ in range(40):
            x @ x
        torch.cuda.synchronize()
        time.sleep(0.5)

    return repeat(seconds, step)


@program
def bursts_of_requests(seconds: float) -> int:
    """idle: two seconds of full load, then six of nothing, as a service at night."""

    def step() -> None:
        x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            x @ x
            torch.cuda.synchronize()
        time.sleep(6)

    return repeat(seconds, step)
