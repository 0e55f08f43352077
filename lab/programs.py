"""Small GPU programs with one known bottleneck each, to record and to judge the advisor by.

`python lab/programs.py NAME [--seconds S]` runs one on the visible GPUs (PyTorch is needed; it is no dependency of Fettle).
Each docstring says what limits the program, as a person who reads its source would.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

Program = Callable[[float], int]
PROGRAMS: dict[str, Program] = {}


def program(run: Program) -> Program:
    """Register a program under its name."""
    PROGRAMS[run.__name__] = run
    return run


def _repeat(seconds: float, step: Callable[[], object]) -> int:
    """Call `step` for `seconds`; the number of calls."""
    end, calls = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        step()
        calls += 1
        if calls % 20 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return calls


def _block(width: int, depth: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers += [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width)]
    return nn.Sequential(*layers).to("cuda", dtype)


def _train(model: nn.Module, batch: Callable[[], torch.Tensor], seconds: float, *, bf16: bool) -> int:
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            loss = model(batch()).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return _repeat(seconds, step)


def _resnet() -> nn.Module:
    from torchvision.models import resnet50

    return resnet50().cuda().to(memory_format=torch.channels_last)


class _Images(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Random images made by `work` rounds of numpy a sample."""

    def __init__(self, work: int, wait_s: float = 0.0) -> None:
        self.work, self.wait_s = work, wait_s

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.wait_s:
            time.sleep(self.wait_s)
        image = np.random.default_rng(index).random((3, 224, 224), dtype=np.float32)
        for _ in range(self.work):
            image = np.clip(np.sqrt(image * image + 0.1) * 0.9, 0, 1)
        return torch.from_numpy(image)


def _fed_resnet(seconds: float, workers: int, work: int, wait_s: float = 0.0, batch: int = 256) -> int:
    loader = iter(
        torch.utils.data.DataLoader(_Images(work, wait_s), batch_size=batch, num_workers=workers, pin_memory=workers > 0)
    )
    return _train(
        _resnet(), lambda: next(loader).cuda(non_blocking=True).to(memory_format=torch.channels_last), seconds, bf16=True
    )


@program
def main_thread_augment(seconds: float) -> int:
    """data: the main process makes every image itself, in numpy."""
    return _fed_resnet(seconds, 0, 3)


@program
def two_busy_workers(seconds: float) -> int:
    """data: two loader workers at full CPU cannot feed the GPU."""
    return _fed_resnet(seconds, 2, 6)


@program
def remote_storage_wait(seconds: float) -> int:
    """data: four workers wait 10 ms for each sample, as for a slow object store."""
    return _fed_resnet(seconds, 4, 0, 0.01)


@program
def pinned_copies(seconds: float) -> int:
    """copy: 1 GiB from pinned memory to the GPU for each small product; the copies are as fast as the link allows."""
    host = torch.empty(1 << 28, dtype=torch.float32).pin_memory()
    device, small = torch.empty_like(host, device="cuda"), torch.randn(2048, 2048, device="cuda")

    def step() -> None:
        device.copy_(host, non_blocking=True)
        small @ small
        torch.cuda.synchronize()

    return _repeat(seconds, step)


@program
def offload_to_host(seconds: float) -> int:
    """copy: every step sends 2 GiB of activations back to pageable host memory."""
    big, small = torch.randn(1 << 29, device="cuda"), torch.randn(4096, 4096, device="cuda")

    def step() -> None:
        small @ small
        big.cpu()

    return _repeat(seconds, step)


@program
def elementwise_stream(seconds: float) -> int:
    """memory_bandwidth: elementwise kernels over 4 GiB tensors."""
    a = torch.randn(1 << 30, device="cuda", dtype=torch.bfloat16)
    b = torch.randn_like(a)

    def step() -> None:
        torch.add(a, b, alpha=0.5, out=b)

    return _repeat(seconds, step)


@program
def healthy_resnet_synthetic(seconds: float) -> int:
    """compute or memory_bandwidth: ResNet-50 in bf16 on images that already lie on the GPU."""
    images = torch.randn(256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    return _train(_resnet(), lambda: images, seconds, bf16=True)


@program
def fp32_mlp(seconds: float) -> int:
    """compute: large matrix products in fp32 with TF32 off."""
    torch.backends.cuda.matmul.allow_tf32 = False
    x = torch.randn(16384, 2048, device="cuda")
    return _train(_block(2048, 8), lambda: x, seconds, bf16=False)


@program
def healthy_bf16_mlp(seconds: float) -> int:
    """compute: the same in bf16, healthy."""
    x = torch.randn(32768, 4096, device="cuda")
    return _train(_block(4096, 6), lambda: x, seconds, bf16=True)


@program
def fp64_products(seconds: float) -> int:
    """compute: double-precision matrix products, as in HPC codes."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.float64)
    return _repeat(seconds, lambda: torch.mm(a, a))


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

    return _repeat(seconds, step)


@program
def eager_small_decode(seconds: float) -> int:
    """launch: a small transformer generates token by token, eagerly, batch 1."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda().bfloat16().eval()
    x = torch.randn(1, 16, 512, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        with torch.no_grad():
            model(x)[:, -1].argmax().item()

    return _repeat(seconds, step)


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
    return _repeat(seconds, graph.replay)


@program
def small_cudnn_lstm(seconds: float) -> int:
    """underfilled: cuDNN's own LSTM, long sequence, batch 4: one small kernel after another, queued far ahead."""
    lstm = nn.LSTM(512, 512, 2).cuda()
    x = torch.randn(2000, 4, 512, device="cuda")

    def step() -> None:
        with torch.no_grad():
            lstm(x)

    return _repeat(seconds, step)


@program
def frequent_checkpoints(seconds: float) -> int:
    """checkpoint: 4 GB written after every 30 short steps."""
    model = _block(4096, 8)
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
def graph_leak(seconds: float) -> int:
    """compute with a leak: bf16 training that keeps 48 MB of activations alive each step."""
    model, kept = _block(2048, 6), []
    x = torch.randn(8192, 2048, device="cuda")

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            out = model(x)
        out.float().square().mean().backward()
        model.zero_grad(set_to_none=True)
        kept.append(out.detach().clone()[: 12 << 10])

    return _repeat(seconds, step)


@program
def idle_notebook(seconds: float) -> int:
    """idle: 8 GB held after one short computation; then nothing."""
    kept = torch.randn(1 << 31, device="cuda")
    (kept[:1000] * 2).sum().item()
    time.sleep(seconds)
    return len(kept) > 0


@program
def nearly_full_training(seconds: float) -> int:
    """compute, healthy but for memory: 96 % of the card is taken."""
    free, _total = torch.cuda.mem_get_info()
    ballast = torch.empty(int(free * 0.88), dtype=torch.uint8, device="cuda")
    x = torch.randn(16384, 2048, device="cuda")
    done = _train(_block(2048, 8), lambda: x, seconds, bf16=True)
    return done + 0 * len(ballast)


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
    return _repeat(seconds, graph.replay)


@program
def sparse_requests(seconds: float) -> int:
    """idle: a server that answers a 10 ms request twice a second."""
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        for _ in range(40):
            x @ x
        torch.cuda.synchronize()
        time.sleep(0.5)

    return _repeat(seconds, step)


@program
def item_every_layer(seconds: float) -> int:
    """launch: `.item()` after every small layer drains the queue each time."""
    model = _block(512, 12)
    x = torch.randn(64, 512, device="cuda")

    def step() -> None:
        y = x
        for layer in model:  # type: ignore[attr-defined]
            y = layer(y)
            if y.mean().item() > 1e9:
                raise FloatingPointError("diverged")

    return _repeat(seconds, step)


@program
def hugging_face_generate(seconds: float) -> int:
    """launch: GPT-2's shape, random weights, `generate` token by token for one short prompt."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).cuda().bfloat16().eval()
    prompt = torch.randint(0, 50000, (1, 32), device="cuda")

    def step() -> None:
        with torch.no_grad():
            model.generate(prompt, max_new_tokens=64, do_sample=False, pad_token_id=0)

    return _repeat(seconds, step)


@program
def environment_loop(seconds: float) -> int:
    """data: a simulator on the CPU (numpy, one core) makes each batch for a small policy network."""
    policy = _block(256, 4)
    state = np.random.default_rng(0).random((512, 256), dtype=np.float32)

    def step() -> None:
        nonlocal state
        for _ in range(20):
            state = np.tanh(state * 1.1 + 0.01)
        policy(torch.from_numpy(state).cuda()).square().mean().backward()
        policy.zero_grad(set_to_none=True)

    return _repeat(seconds, step)


@program
def embedding_gather(seconds: float) -> int:
    """memory_bandwidth: random rows gathered from a 16 GB table."""
    table = torch.randn(1 << 25, 128, device="cuda")
    rows = torch.randint(0, 1 << 25, (1 << 22,), device="cuda")
    return _repeat(seconds, lambda: table[rows].sum(1))


@program
def small_files(seconds: float) -> int:
    """data: four workers read 40 files of 100 kB for each sample, from the page cache."""
    import pathlib
    import tempfile

    folder = pathlib.Path(tempfile.mkdtemp())
    for index in range(4000):
        (folder / str(index)).write_bytes(os.urandom(100_000))

    class Files(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 1 << 30

        def __getitem__(self, index: int) -> torch.Tensor:
            parts = [np.frombuffer((folder / str((index * 40 + k) % 4000)).read_bytes(), dtype=np.uint8) for k in range(40)]
            return torch.from_numpy(np.concatenate(parts)[: 3 * 224 * 224].astype(np.float32).reshape(3, 224, 224) / 255)

    loader = iter(torch.utils.data.DataLoader(Files(), batch_size=256, num_workers=4, pin_memory=True))
    return _train(_resnet(), lambda: next(loader).cuda(non_blocking=True), seconds, bf16=True)


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

    return _repeat(seconds, step)


@program
def checkpoint_in_background(seconds: float) -> int:
    """compute, healthy: bf16 training whose checkpoints a thread writes while the GPU goes on."""
    import threading

    model, x = _block(4096, 6), torch.randn(16384, 4096, device="cuda")
    weights = {name: tensor.detach().cpu() for name, tensor in model.state_dict().items()}
    stop = threading.Event()

    def save() -> None:
        while not stop.wait(3):
            torch.save(weights, "/tmp/lab-background.pt")

    thread = threading.Thread(target=save)
    thread.start()
    try:
        return _train(model, lambda: x, seconds, bf16=True)
    finally:
        stop.set()
        thread.join()


@program
def int8_products(seconds: float) -> int:
    """compute: int8 matrix products, as quantised inference does in batches."""
    a = torch.randint(-128, 127, (8192, 8192), device="cuda", dtype=torch.int8)
    return _repeat(seconds, lambda: torch._int_mm(a, a))


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

    return _repeat(seconds, step)


# ── several processes or GPUs ──


def _spawn(ranks: int, run: Callable[..., None], *args: object) -> int:
    torch.multiprocessing.spawn(run, args=(ranks, *args), nprocs=ranks)
    return ranks


def _alone(rank: int, _ranks: int, seconds: float) -> None:
    x = torch.randn(8192, 2048, device="cuda")
    _train(_block(2048, 6), lambda: x, seconds, bf16=True)


@program
def three_tenants(seconds: float) -> int:
    """contention: three unrelated trainings share one GPU."""
    return _spawn(3, _alone, seconds)


def _ddp(rank: int, ranks: int, seconds: float, width: int, depth: int, rows: int, slow_rank: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    model = nn.parallel.DistributedDataParallel(_block(width, depth), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(rows, width, device="cuda")
    busy = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    stop = torch.zeros(1, device="cuda")
    end = time.monotonic() + seconds
    while not stop.item():
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == slow_rank:
            for _ in range(60):
                busy @ busy
        stop.fill_(time.monotonic() > end)
        torch.distributed.all_reduce(stop)
    torch.distributed.destroy_process_group()


@program
def ddp_gradients_dominate(seconds: float) -> int:
    """communication: 1.1 billion parameters, 128 rows a GPU: gradients dominate."""
    return _spawn(torch.cuda.device_count(), _ddp, seconds, 4096, 8, 128, -1)


@program
def ddp_over_host_memory(seconds: float) -> int:
    """communication: gradients dominate and peer-to-peer is off, so they cross PCIe and host memory."""
    os.environ["NCCL_P2P_DISABLE"] = "1"
    return _spawn(torch.cuda.device_count(), _ddp, seconds, 2048, 8, 1024, -1)


@program
def ddp_healthy_large(seconds: float) -> int:
    """compute: the gradients hide behind large steps."""
    return _spawn(torch.cuda.device_count(), _ddp, seconds, 4096, 4, 32768, -1)


@program
def ddp_straggler(seconds: float) -> int:
    """compute with a straggler: the second rank does twice the work, the first waits for it."""
    return _spawn(torch.cuda.device_count(), _ddp, seconds, 2048, 4, 8192, 1)


def _fsdp(rank: int, ranks: int, seconds: float) -> None:
    from torch.distributed.fsdp import fully_shard

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29512", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    model = _block(4096, 8)
    for layer in model:  # type: ignore[attr-defined]
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(256, 4096, device="cuda")
    stop = torch.zeros(1, device="cuda")
    end = time.monotonic() + seconds
    while not stop.item():
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        stop.fill_(time.monotonic() > end)
        torch.distributed.all_reduce(stop)
    torch.distributed.destroy_process_group()


@program
def fsdp_small_batch(seconds: float) -> int:
    """communication: every layer is gathered for 256 rows a GPU."""
    return _spawn(torch.cuda.device_count(), _fsdp, seconds)


@program
def one_gpu_of_two(seconds: float) -> int:
    """compute on the first GPU; the second holds a context and does nothing."""
    for device in range(torch.cuda.device_count()):
        torch.zeros(1 << 28, device=f"cuda:{device}")
    return healthy_bf16_mlp(seconds)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=14)
    options = parser.parse_args()
    began = time.monotonic()
    done = PROGRAMS[options.name](options.seconds)
    print(f"{options.name}: {done} steps, {done / (time.monotonic() - began):.2f} a second, start-up counted", file=sys.stderr)


if __name__ == "__main__":
    _main()
