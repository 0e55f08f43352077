"""Programs of several processes or GPUs."""

import os
import time
from collections.abc import Callable

import torch
from torch import nn

from lab.known.engine import healthy_bf16_mlp
from lab.loop import program
from lab.models import block, train


def _spawn(ranks: int, run: Callable[..., None], *args: object) -> int:
    torch.multiprocessing.spawn(run, args=(ranks, *args), nprocs=ranks)
    return ranks


def _alone(rank: int, _ranks: int, seconds: float) -> None:
    x = torch.randn(8192, 2048, device="cuda")
    train(block(2048, 6), lambda: x, seconds, bf16=True)


@program
def three_tenants(seconds: float) -> int:
    """contention: three unrelated trainings share one GPU."""
    return _spawn(3, _alone, seconds)


def _ddp(rank: int, ranks: int, seconds: float, width: int, depth: int, rows: int, slow_rank: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=ranks)
    model = nn.parallel.DistributedDataParallel(block(width, depth), device_ids=[rank])
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
    model = block(4096, 8)
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
