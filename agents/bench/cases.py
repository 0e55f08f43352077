"""Which tests a run has: by the card's memory and compute capability, and by how much time there is."""

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from wire.messages import GpuFacts

MIB: Final = 1 << 20
EDGES: Final = (8192, 4096, 2048)
"""Of a square product; the next one where a GPU lacks the memory or the time for it."""
MODEL_SHAPES: Final = ((8192, 14336, 4096), (8192, 8192, 28672))
"""(m, n, k) at 8,192 tokens: a gated MLP's way up in an 8B transformer, and the way down in a 70B one."""
ALL_REDUCE_BYTES: Final = (1 * MIB, 64 * MIB, 1024 * MIB)
PEER_BYTES: Final = 256 * MIB
ELEMENT_BYTES: Final = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
_FROM: Final = {"bf16": (8, 0), "fp16": (7, 0), "tf32": (8, 0), "fp8": (8, 9), "int8": (7, 5), "fp32": (0, 0), "fp64": (0, 0)}
"""The compute capability from which tensor cores take the format; fp32 and fp64 run anywhere."""
Kind = Literal["matmul", "memory", "host", "peer", "all_reduce", "disk"]
KINDS: Final[tuple[Kind, ...]] = ("matmul", "memory", "host", "peer", "all_reduce", "disk")


class Case(Struct, frozen=True, kw_only=True):
    """One test of one GPU, as the process that measures is told it."""

    name: str
    kind: Kind
    budget_s: float
    dtype: str = ""
    m: int = 0
    n: int = 0
    k: int = 0
    size_bytes: int = 0
    way: str = ""  # copy or triad; h2d or d2h
    pinned: bool = False
    peer: int = 0
    ranks: int = 0


def matmuls(gpu: GpuFacts, *, quick: bool) -> Iterator[Case]:
    """Products by number format, 8192 on an edge, and two shapes of models."""
    budget_s = 1.5 if quick else 8.0
    capability = tuple(int(part) for part in (gpu.compute_capability or "0.0").split("."))
    able = [dtype for dtype, first in _FROM.items() if capability >= first]
    for dtype in able:
        edge = next((one for one in EDGES if 3 * one * one * ELEMENT_BYTES[dtype] < (gpu.mem_total_bytes or 0) * 0.6), EDGES[-1])
        yield matmul(dtype, edge, edge, edge, budget_s)
    for m, n, k in MODEL_SHAPES:
        yield matmul("bf16" if "bf16" in able else "fp16", m, n, k, budget_s)


def matmul(dtype: str, m: int, n: int, k: int, budget_s: float) -> Case:
    """One product; its name holds its shape."""
    shape = str(m) if m == n == k else f"{m}x{n}x{k}"
    return Case(name=f"matmul_{dtype}_{shape}", kind="matmul", dtype=dtype, m=m, n=n, k=k, budget_s=budget_s)


def memory(gpu: GpuFacts, *, quick: bool) -> Iterator[Case]:
    """The GPU's own memory: a copy (read and write) and a triad (two reads and a write), far larger than its caches."""
    size = min(4096 * MIB, (gpu.mem_total_bytes or 0) // 8) // MIB * MIB or 64 * MIB
    for way in ("copy", "triad"):
        yield Case(name=f"memory_{way}", kind="memory", way=way, size_bytes=size, budget_s=1.0 if quick else 4.0)


def host(*, quick: bool) -> Iterator[Case]:
    """Copies to and from the host, pinned and pageable."""
    for size in (16, 256) if quick else (1, 16, 256):
        for pinned in (True, False):
            for way in ("h2d", "d2h"):
                name = f"{way}_{'pinned' if pinned else 'pageable'}_{size}mib"
                yield Case(name=name, kind="host", way=way, pinned=pinned, size_bytes=size * MIB, budget_s=0.4 if quick else 2.0)


def peer(index: int, gpus: int, *, quick: bool) -> Iterator[Case]:
    """A copy from GPU number `index` of the run to the next one."""
    if gpus > 1:
        name = f"peer_copy_{PEER_BYTES // MIB}mib"
        yield Case(name=name, kind="peer", size_bytes=PEER_BYTES, peer=(index + 1) % gpus, budget_s=0.5 if quick else 2.0)


def all_reduces(gpus: int, *, quick: bool) -> Iterator[Case]:
    """Sums over all GPUs of the run, one process each."""
    for size in ALL_REDUCE_BYTES if gpus > 1 else ():
        text = f"{size // MIB}mib" if size < 1024 * MIB else f"{size // (1024 * MIB)}gib"
        name = f"all_reduce_{text}_{gpus}gpus"
        yield Case(name=name, kind="all_reduce", size_bytes=size, ranks=gpus, budget_s=1.0 if quick else 4.0)
