"""Before and after: programs of several GPUs, a process each."""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from lab.loop import WARM_UP_S, Measured, program, timed
from lab.models import block, step_of

MICRO_BATCHES: Final = 16
Worker = Callable[[int, int, float], "Measured"]


def _timed(seconds: float, step: Callable[[], object], unit: str, units_a_step: float) -> Measured:
    """As `timed`, every rank the same number of steps."""
    over = torch.zeros(1, device="cuda")

    def until(end: float) -> int:
        steps = 0
        while True:
            step()
            steps += 1
            over.fill_(float(time.monotonic() > end))
            torch.distributed.all_reduce(over)
            if over.item():
                return steps

    until(time.monotonic() + WARM_UP_S)
    began = time.monotonic()
    steps = until(began + seconds)
    return Measured(unit, steps * units_a_step, time.monotonic() - began)


def _rank(rank: int, ranks: int, port: int, worker: Worker, seconds: float, told: Any) -> None:
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    done = worker(rank, ranks, seconds)
    if rank == 0:
        told.put(done)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def _on_ranks(ranks: int, worker: Worker, seconds: float) -> Measured:
    """What the first rank measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = torch.multiprocessing.get_context("spawn").SimpleQueue()
    torch.multiprocessing.spawn(_rank, args=(ranks, port, worker, seconds, told), nprocs=ranks)
    done: Measured = told.get()
    return done


def _parallel(model: nn.Module, rank: int) -> nn.parallel.DistributedDataParallel:
    return nn.parallel.DistributedDataParallel(model, device_ids=[rank])


def _accumulated(rank: int, ranks: int, seconds: float, *, skip: bool) -> Measured:
    """A billion parameters, 256 rows a micro-batch, the optimizer after 16 of them."""
    model = _parallel(block(4096, 8), rank)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(256, 4096, device="cuda")

    def step() -> None:
        for number in range(1, MICRO_BATCHES + 1):
            with contextlib.nullcontext() if number == MICRO_BATCHES or not skip else model.no_sync():
                with torch.autocast("cuda", torch.bfloat16):
                    loss = model(x).float().square().mean()
                loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return _timed(seconds, step, "rows", ranks * MICRO_BATCHES * 256)


def _every_micro_batch(rank: int, ranks: int, seconds: float) -> Measured:
    return _accumulated(rank, ranks, seconds, skip=False)


def _last_micro_batch(rank: int, ranks: int, seconds: float) -> Measured:
    return _accumulated(rank, ranks, seconds, skip=True)


@program
def gradients_every_micro_batch(seconds: float) -> Measured:
    """communication: gradients are exchanged after each of 16 micro-batches."""
    return _on_ranks(torch.cuda.device_count(), _every_micro_batch, seconds)


@program
def gradients_on_the_last(seconds: float) -> Measured:
    """The same under `no_sync` but for the last."""
    return _on_ranks(torch.cuda.device_count(), _last_micro_batch, seconds)


def _shared_out(rank: int, ranks: int, seconds: float, mine: int) -> Measured:
    model = _parallel(block(2048, 4), rank)
    x = torch.randn(mine, 2048, device="cuda")
    step = step_of(model, torch.optim.AdamW(model.parameters(), fused=True), lambda: x, bf16=True)
    return _timed(seconds, step, "rows", ranks * 8192)


def _uneven(rank: int, ranks: int, seconds: float) -> Measured:
    """The last rank has half as much again as its part, the first as much less."""
    return _shared_out(rank, ranks, seconds, 12288 if rank == ranks - 1 else 4096 if rank == 0 else 8192)


def _even(rank: int, ranks: int, seconds: float) -> Measured:
    return _shared_out(rank, ranks, seconds, 8192)


@program
def uneven_ranks(seconds: float) -> Measured:
    """A straggler: the last rank has three times the first one's rows."""
    return _on_ranks(torch.cuda.device_count(), _uneven, seconds)


@program
def even_ranks(seconds: float) -> Measured:
    """The same rows, shared out evenly."""
    return _on_ranks(torch.cuda.device_count(), _even, seconds)


@program
def one_of_the_gpus(seconds: float) -> Measured:
    """compute on the first GPU; the others hold memory and do nothing."""
    held = [torch.zeros(1 << 28, device=f"cuda:{device}") for device in range(1, torch.cuda.device_count())]
    model = block(4096, 4)
    x = torch.randn(16384, 4096, device="cuda")
    step = step_of(model, torch.optim.AdamW(model.parameters(), fused=True), lambda: x, bf16=True)
    done = timed(seconds, step, "rows", 16384)
    del held
    return done


def _full_batch(rank: int, ranks: int, seconds: float) -> Measured:
    model = _parallel(block(4096, 4), rank)
    x = torch.randn(16384, 4096, device="cuda")
    step = step_of(model, torch.optim.AdamW(model.parameters(), fused=True), lambda: x, bf16=True)
    return _timed(seconds, step, "rows", ranks * 16384)


@program
def all_of_the_gpus(seconds: float, ranks: int = 2) -> Measured:
    """The same training with a rank on each GPU."""
    return _on_ranks(ranks, _full_batch, seconds)
