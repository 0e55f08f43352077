"""torch.distributed where all ranks are as fast as the card's sheet says; they meet at the file, as the real ones do."""

import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import torch  # type: ignore[import-not-found] # the one beside this

ReduceOp = SimpleNamespace(MIN="min", MAX="max")
_ranks = 1


def is_available() -> bool:
    return True


def is_nccl_available() -> bool:
    return "nccl" not in torch.KNOBS.get("broken", ())


def init_process_group(backend: str, *, init_method: str, rank: int, world_size: int, timeout: timedelta) -> None:
    global _ranks
    assert backend == "nccl"
    place = Path(init_method.removeprefix("file://"))
    Path(f"{place}.{rank}").touch()
    until = time.monotonic() + 20
    while len(list(place.parent.iterdir())) < world_size:
        assert time.monotonic() < until, "the other ranks did not come"
        time.sleep(0.01)
    time.sleep(0.05)
    _ranks = world_size


def all_reduce(buffer: "torch.Tensor", op: str = "sum") -> None:
    torch.passes("all_reduce", buffer.bytes * 2 * (_ranks - 1) / _ranks, torch.NVLINK, buffer.device)


def destroy_process_group() -> None: ...
