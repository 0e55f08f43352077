"""Programs whose GPU waits for input."""

import os
import time

import numpy as np
import torch

from lab.loop import program, repeat
from lab.models import block, resnet, train


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
    return train(resnet(), lambda: next(loader).cuda(non_blocking=True).to(memory_format=torch.channels_last), seconds, bf16=True)


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
def environment_loop(seconds: float) -> int:
    """data: a simulator on the CPU (numpy, one core) makes each batch for a small policy network."""
    policy = block(256, 4)
    state = np.random.default_rng(0).random((512, 256), dtype=np.float32)

    def step() -> None:
        nonlocal state
        for _ in range(20):
            state = np.tanh(state * 1.1 + 0.01)
        policy(torch.from_numpy(state).cuda()).square().mean().backward()
        policy.zero_grad(set_to_none=True)

    return repeat(seconds, step)


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
    return train(resnet(), lambda: next(loader).cuda(non_blocking=True), seconds, bf16=True)
