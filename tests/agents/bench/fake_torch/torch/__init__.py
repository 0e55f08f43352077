"""Torch on a card that does exactly what its sheet says: operations move a clock by their amount over its rate, and compute nothing.

It stands where torch stands, on a machine without a GPU. FAKE_TORCH holds JSON: `slow` (GPU number: share of the speed), `broken`
(names of operations that fail), `dies` (an operation that ends the process), `hangs` (one that never comes back), `free_bytes`.
"""

import json
import os
import time
from types import SimpleNamespace
from typing import Any

KNOBS: dict[str, Any] = json.loads(os.environ.get("FAKE_TORCH", "{}"))
RATES = {
    "float64": 60e12, "float32": 50e12, "tf32": 400e12, "float16": 710e12, "bfloat16": 700e12, "float8_e4m3fn": 1300e12, "int8": 1200e12,
}  # fmt: skip
MEMORY, PCIE, NVLINK = 4e12, 50e9, 300e9
__version__ = "2.99.0+fake"
version = SimpleNamespace(cuda="13.0")
backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91300))
clock_s = 0.0
_precision = "highest"


class Dtype(str):
    """A number format by its name."""


float64, float32, float16 = Dtype("float64"), Dtype("float32"), Dtype("float16")
bfloat16, float8_e4m3fn = Dtype("bfloat16"), Dtype("float8_e4m3fn")
int8, uint8 = Dtype("int8"), Dtype("uint8")
_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "int8": 1, "uint8": 1}


def passes(operation: str, amount: float, rate: float, device: str) -> None:
    """Let the clock go on, unless the operation is to fail."""
    global clock_s
    if operation in KNOBS.get("broken", ()):
        raise RuntimeError(f"CUDA error: {operation} is broken\nCompile with TORCH_USE_CUDA_DSA")
    if operation == KNOBS.get("dies"):
        os.write(2, b"terminate called: Xid 79\n")
        os._exit(134)
    if operation == KNOBS.get("hangs"):
        time.sleep(600)
    clock_s += amount / (rate * KNOBS.get("slow", {}).get(device.partition(":")[2], 1.0))


class Tensor:
    """A shape, a number format and a place."""

    def __init__(self, shape: tuple[int, ...], dtype: Dtype, device: str, value: float = 0.0) -> None:
        self.shape, self.dtype, self.device, self.value = shape, dtype, device, value

    @property
    def bytes(self) -> int:
        """Its size."""
        count = 1
        for edge in self.shape:
            count *= edge
        return count * _BYTES[self.dtype]

    def to(self, dtype: Dtype) -> "Tensor":
        return Tensor(self.shape, dtype, self.device)

    def t(self) -> "Tensor":
        return Tensor(self.shape[::-1], self.dtype, self.device)

    def item(self) -> float:
        return self.value

    def copy_(self, other: "Tensor", non_blocking: bool = False) -> "Tensor":
        places = {self.device, other.device}
        if "cpu" in places:
            device = next(place for place in places if place != "cpu")
            passes("host", self.bytes, PCIE, device)
        elif len(places) == 2:
            passes("peer", self.bytes, NVLINK, other.device)
        else:
            passes("copy", 2 * self.bytes, MEMORY, self.device)
        return self


def ones(*shape: int, device: str = "cpu", dtype: Dtype = float32, pin_memory: bool = False) -> Tensor:
    return Tensor(shape, dtype, device)


zeros = empty = randn = ones


def empty_like(other: Tensor) -> Tensor:
    return other


def randint(low: int, high: int, shape: tuple[int, ...], *, device: str, dtype: Dtype) -> Tensor:
    return Tensor(shape, dtype, device)


def tensor(values: list[float], *, device: str, dtype: Dtype) -> Tensor:
    return Tensor((len(values),), dtype, device, values[0])


def set_float32_matmul_precision(precision: str) -> None:
    global _precision
    _precision = precision


def matmul(left: Tensor, right: Tensor, out: Tensor | None = None) -> None:
    (m, k), (inner, n) = left.shape, right.shape
    assert k == inner
    name = "tf32" if left.dtype == "float32" and _precision == "high" else str(left.dtype)
    passes(name, 2 * m * n * k, RATES[name], left.device)


def _int_mm(left: Tensor, right: Tensor) -> None:
    matmul(left, right)


def _scaled_mm(left: Tensor, right: Tensor, *, scale_a: Tensor, scale_b: Tensor, out_dtype: Dtype, use_fast_accum: bool) -> None:
    matmul(left, right)


def add(left: Tensor, right: Tensor, *, alpha: float, out: Tensor) -> None:
    passes("triad", 3 * left.bytes, MEMORY, left.device)


from torch import cuda as cuda  # type: ignore[import-not-found] # noqa: E402 - it needs the clock
