"""torch.cuda of the card in the sheet."""

import time
from types import SimpleNamespace

import torch  # type: ignore[import-not-found] # the one beside this

OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {})
nccl = SimpleNamespace(version=lambda: (2, 28, 9))


class Event:
    """A moment of the fake's clock."""

    def __init__(self, enable_timing: bool) -> None:
        self.at_s = 0.0

    def record(self) -> None:
        self.at_s = torch.clock_s

    def elapsed_time(self, other: "Event") -> float:
        return (other.at_s - self.at_s) * 1e3


def is_available() -> bool:
    return not torch.KNOBS.get("blind")


def set_device(index: int) -> None: ...


def synchronize() -> None:
    time.sleep(torch.KNOBS.get("takes_s", 0))


def empty_cache() -> None: ...


def mem_get_info(index: int) -> tuple[int, int]:
    return torch.KNOBS.get("free_bytes", 140 << 30), 141 << 30


def get_device_capability(index: int) -> tuple[int, int]:
    return (9, 0)
