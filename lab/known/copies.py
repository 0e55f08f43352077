"""Programs that copy between host and GPU, or save."""

import time

import torch

from lab.loop import program, repeat
from lab.models import block, train


@program
def pinned_copies(seconds: float) -> int:
    """copy: 1 GiB from pinned memory to the GPU for each small product; the copies are as fast as the link allows."""
    host = torch.empty(1 << 28, dtype=torch.float32).pin_memory()
    device, small = torch.empty_like(host, device="cuda"), torch.randn(2048, 2048, device="cuda")

    def step() -> None:
        device.copy_(host, non_blocking=True)
        small @ small
        torch.cuda.synchronize()

    return repeat(seconds, step)


@program
def offload_to_host(seconds: float) -> int:
    """copy: every step sends 2 GiB of activations back to pageable host memory."""
    big, small = torch.randn(1 << 29, device="cuda"), torch.randn(4096, 4096, device="cuda")

    def step() -> None:
        small @ small
        big.cpu()

    return repeat(seconds, step)


@program
def pinned_prefetch(seconds: float) -> int:
    """copy: pinned batches prefetched on a second stream, but the link is the limit: the work takes half as long."""
    host = torch.empty(1 << 28, dtype=torch.float32).pin_memory()
    buffers = [torch.empty_like(host, device="cuda") for _ in range(2)]
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    side, turn = torch.cuda.Stream(), 0

    def step() -> None:
        nonlocal turn
        with torch.cuda.stream(side):
            buffers[turn % 2].copy_(host, non_blocking=True)
        for _ in range(6):
            a @ a
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        turn += 1

    return repeat(seconds, step)


@program
def frequent_checkpoints(seconds: float) -> int:
    """checkpoint: 4 GB written after every 30 short steps."""
    model = block(4096, 8)
    x = torch.randn(8192, 4096, device="cuda")
    end, saves = time.monotonic() + seconds, 0
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    while time.monotonic() < end:
        for _ in range(30):
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(x).float().square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        torch.save(model.state_dict(), "/tmp/lab-checkpoint.pt")
        saves += 1
    return saves


@program
def checkpoint_in_background(seconds: float) -> int:
    """compute, healthy: bf16 training whose checkpoints a thread writes while the GPU goes on."""
    import threading

    model, x = block(4096, 6), torch.randn(16384, 4096, device="cuda")
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    stop = threading.Event()

    def save() -> None:
        while not stop.wait(3):
            torch.save(weights, "/tmp/lab-background.pt")

    thread = threading.Thread(target=save)
    thread.start()
    try:
        return train(model, lambda: x, seconds, bf16=True)
    finally:
        stop.set()
        thread.join()
