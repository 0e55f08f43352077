"""Before and after: programs whose GPU waits for input."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from lab.loop import Measured, program, timed
from lab.models import resnet, step_of
from lab.scratch import folder

BATCH: Final = 128
FIRST_S: Final = 4.0
"""By then what workers made while the first batch was waited for has been used up."""
ROUNDS: Final = 3
HEAVY_ROUNDS: Final = 64
"""So many that the cores are what limits: with 32 rounds 64 workers kept 18 of 32 cores busy, and what takes their batches in was as slow."""
HEAVY_BATCH: Final = 64
MANY_FIRST_S: Final = 6.0
MANY_TIMES: Final = 2
"""Workers that begin together end together: with two on each core a round of batches takes 3 s, and a measurement a few of them."""
SHAPE: Final = (3, 224, 224)
SAMPLE_BYTES: Final = 3 * 224 * 224 * 4  # a whole number of pages
SAMPLES: Final = 2048  # 1.2 GB


def _augmented(image: np.ndarray, rounds: int) -> np.ndarray:
    for _ in range(rounds):
        image = np.clip(np.sqrt(image * image + 0.1) * 0.9, 0, 1)
    return image


class _Images(Dataset[torch.Tensor]):
    """Random images: as bytes, or as floats after `rounds` of augmentation."""

    def __init__(self, rounds: int | None) -> None:
        self._rounds = rounds

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> torch.Tensor:
        raw = np.random.default_rng(index).integers(0, 256, SHAPE, dtype=np.uint8)
        if self._rounds is None:
            return torch.from_numpy(raw)
        return torch.from_numpy(_augmented(raw.astype(np.float32) / 255, self._rounds))


class _File(Dataset[torch.Tensor]):
    """Samples of one file in no order, read past the page cache or like any file."""

    def __init__(self, file: Path, *, direct: bool) -> None:
        self._file = os.open(file, os.O_RDONLY | (os.O_DIRECT if direct else 0))

    def __len__(self) -> int:
        return 1 << 30

    def __getitem__(self, index: int) -> torch.Tensor:
        space = np.empty(SAMPLE_BYTES + 4096, dtype=np.uint8)
        start = -space.ctypes.data % 4096  # a read past the page cache wants whole pages
        sample = space[start : start + SAMPLE_BYTES]
        os.preadv(self._file, [sample.data], index * 7919 % SAMPLES * SAMPLE_BYTES)
        return torch.from_numpy(sample.view(np.float32).reshape(SHAPE))


def _write(file: Path) -> Path:
    block = np.random.default_rng(0).random(SAMPLE_BYTES // 4 * 64, dtype=np.float32)
    with file.open("wb") as out:
        for _ in range(SAMPLES // 64):
            block.tofile(out)
        out.flush()
        os.fsync(out.fileno())
    return file


def _batches(loader: "DataLoader[torch.Tensor]") -> Callable[[], torch.Tensor]:
    batches: Iterator[torch.Tensor] = iter(loader)
    return lambda: next(batches).cuda(non_blocking=True)


def _fed(
    seconds: float, loader: "DataLoader[torch.Tensor]", rounds_on_gpu: int | None = None, first_s: float = FIRST_S
) -> Measured:
    """Train ResNet-50 on what `loader` gives; workers start when the model is there, with nothing made ahead."""
    model = resnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = _batches(loader)

    def images() -> torch.Tensor:
        found = batch()
        if rounds_on_gpu is not None:
            found = found.float().div_(255)
            for _ in range(rounds_on_gpu):
                found = (found * found).add_(0.1).sqrt_().mul_(0.9).clamp_(0, 1)
        return found.to(memory_format=torch.channels_last)

    step = step_of(model, optimizer, images, bf16=True)
    return timed(seconds, step, "images", loader.batch_size or 0, first_s)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _workers(rounds: int | None, workers: int, prefetch: int = 2, batch: int = BATCH) -> "DataLoader[torch.Tensor]":
    return DataLoader(
        _Images(rounds),
        batch_size=batch,
        num_workers=workers,
        pin_memory=True,
        persistent_workers=True,
        prefetch_factor=prefetch,
    )


@program
def images_in_main_process(seconds: float) -> Measured:
    """data: the loader makes each image in the main process."""
    return _fed(seconds, DataLoader(_Images(ROUNDS), batch_size=BATCH))


@program
def images_by_workers(seconds: float, workers: int = 16) -> Measured:
    """Loader workers make the same images."""
    return _fed(seconds, _workers(ROUNDS, workers, prefetch=4))


@program
def augmented_on_cpu(seconds: float) -> Measured:
    """data: heavy augmentation by a worker on nearly each core."""
    return _fed(seconds, _workers(HEAVY_ROUNDS, max(1, _cores() - 4), batch=HEAVY_BATCH))


@program
def augmented_on_gpu(seconds: float) -> Measured:
    """The same augmentation on the GPU; workers make bytes."""
    return _fed(seconds, _workers(None, max(1, _cores() - 4), batch=HEAVY_BATCH), HEAVY_ROUNDS)


@program
def twice_as_many_workers_as_cores(seconds: float) -> Measured:
    """data: heavy augmentation by two workers for each core."""
    return _fed(MANY_TIMES * seconds, _workers(HEAVY_ROUNDS, 2 * _cores(), batch=HEAVY_BATCH), first_s=MANY_FIRST_S)


@program
def workers_as_cores(seconds: float) -> Measured:
    """The same by a worker on each core but one."""
    return _fed(MANY_TIMES * seconds, _workers(HEAVY_ROUNDS, max(1, _cores() - 1), batch=HEAVY_BATCH), first_s=MANY_FIRST_S)


@program
def samples_from_disk(seconds: float) -> Measured:
    """data: four workers read samples from the disk, past the page cache, as of storage that gives each read anew."""
    data = _File(_write(folder() / "samples"), direct=True)
    return _fed(seconds, DataLoader(data, batch_size=BATCH, num_workers=4, pin_memory=True))


@program
def samples_staged(seconds: float) -> Measured:
    """The same samples copied to a folder of the local disk, as the advice has it, and read from there like any file."""
    here = folder()  # without a runner another one at each call
    data, staged = here / "data", here / "staged"
    data.mkdir()
    _write(data / "samples")
    # rsync -a of the advice does the same, where it is installed
    shutil.copytree(data, staged)
    return _fed(seconds, DataLoader(_File(staged / "samples", direct=False), batch_size=BATCH, num_workers=4, pin_memory=True))
