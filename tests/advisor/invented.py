"""A collection of invented programs with what a person who wrote them would say."""

from dataclasses import dataclass
from typing import Any, Final

from tests.advisor.programs import Host, Process, Program, wave


@dataclass(frozen=True)
class Case:
    """A program, its accepted labels, the rules of which one must fire, and whether it is healthy."""

    program: Program
    labels: tuple[str, ...]
    any_of: tuple[str, ...] = ()
    healthy: bool = False
    never: tuple[str, ...] = ()


def gpu(busy: Any, sm: Any = None, tensor: Any = 0.0, dram: Any = 0.0, **more: Any) -> dict[str, Any]:
    """A GPU whose units work while its engine is busy: intensities are those of the busy time."""

    def scaled(share: float) -> Any:
        return (lambda t: busy(t) * share) if callable(busy) else busy * share

    readings: dict[str, Any] = {
        "gr_engine_active": busy,
        "sm_active": scaled(0.9 if sm is None else sm),
        "sm_occupancy": scaled(0.3 if sm is None else sm * 0.3),
        "tensor_active": scaled(tensor),
        "dram_active": scaled(dram),
        "int_active": scaled(0.1),
    }
    for name in ("fp32_active", "fp64_active", "fp16_active", "int_active"):
        if name in more:
            readings[name] = scaled(more.pop(name))
    readings["power_w"] = 120.0
    heat = max(tensor if isinstance(tensor, float) else 0.0, dram if isinstance(dram, float) else 0.0, 0.05)
    readings["power_w"] = (
        (lambda t: 120 + 580 * min(1.0, heat * 1.6) * busy(t)) if callable(busy) else 120 + 580 * min(1.0, heat * 1.6) * busy
    )
    return readings | more


TRAINING: Final = gpu(0.99, 0.93, 0.42, 0.41, pcie_rx_bytes_per_s=5e7, power_w=690.0, clocks_event_reasons=4, sm_clock_mhz=1750)
LOADER_RULES: Final = ("dataloader-too-few-workers", "cpu-preprocessing-bound", "storage-throughput-bound")
LAUNCH: Final = ("launch-bound-small-kernels",)
SMALL: Final = ("batch-underfills-gpu", "gpu-oversized-for-job")

CASES: Final[dict[str, Case]] = {
    # compute
    "tf32 training": Case(Program([gpu(0.99, 0.94, 0.42, 0.25)]), ("compute",), healthy=True),
    "fp8 matrix products under the cap": Case(
        Program([gpu(1.0, 0.97, 0.62, 0.3, clocks_event_reasons=4, sm_clock_mhz=1400, power_w=699.0)]), ("compute",), healthy=True
    ),
    "int8 tensor inference": Case(Program([gpu(0.97, 0.93, 0.5, 0.35)]), ("compute",), healthy=True),
    "fp64 stencil": Case(Program([gpu(1.0, 0.98, 0.0, 0.25, fp64_active=0.55)]), ("compute",), healthy=True),
    "fp32 convolutions": Case(Program([gpu(0.98, 0.95, 0.01, 0.2, fp32_active=0.6)]), ("compute",), ("fp32-without-tensor-cores",)),
    "fp32 n-body": Case(Program([gpu(1.0, 0.99, 0.0, 0.02, fp32_active=0.8)]), ("compute",)),
    "hashing on integers": Case(Program([gpu(1.0, 0.99, 0.0, 0.03, int_active=0.85)]), ("compute",), healthy=True),
    "ray tracing: full SMs, nothing near a peak": Case(Program([gpu(1.0, 0.95, 0.0, 0.2, fp32_active=0.12)]), ("compute",)),
    "training whose loader keeps up": Case(
        Program([TRAINING], [Process(cpu_pct=160, children=8, children_cpu_pct=350)], Host(busy_cores=6)), ("compute",), healthy=True
    ),
    "training with a short gap at each epoch": Case(
        Program([gpu(wave(10, 9, 0.99), 0.93, 0.45, 0.4)], [Process(children=8, children_cpu_pct=300)]), ("compute",), healthy=True
    ),
    # memory bandwidth
    "elementwise kernels": Case(Program([gpu(0.99, 0.99, 0.0, 0.91, fp32_active=0.03)]), ("memory_bandwidth",), healthy=True),
    "embedding lookups": Case(Program([gpu(0.97, 0.95, 0.02, 0.65, fp32_active=0.1)]), ("memory_bandwidth",)),
    "decoding at batch 8": Case(
        Program([gpu(0.99, 0.8, 0.05, 0.75, pcie_rx_bytes_per_s=1.5e8)]), ("memory_bandwidth",), ("decode-bandwidth-bound", "serving-underbatched")
    ),
    "decoding at batch 64": Case(Program([gpu(0.99, 0.83, 0.24, 0.72)]), ("memory_bandwidth",), healthy=True),
    "sparse solver in fp64": Case(Program([gpu(0.99, 0.9, 0.0, 0.7, fp64_active=0.08)]), ("memory_bandwidth",), healthy=True),
    "tensor-parallel decoding on two GPUs": Case(
        Program(
            [gpu(0.97, 0.75, 0.04, 0.62, nvlink_tx_bytes_per_s=6e9, nvlink_rx_bytes_per_s=6e9)] * 2,
            [Process(gpus=(0,)), Process(gpus=(1,))],
        ),
        ("memory_bandwidth",),
        never=("comm-not-overlapped",),
    ),
    # underfilled
    "one underfilled decoder of a small model": Case(Program([gpu(0.98, 0.22, 0.01, 0.2)]), ("underfilled",), SMALL),
    "CUDA graph of tiny kernels": Case(Program([gpu(1.0, 0.1, 0.001, 0.01)]), ("underfilled",), SMALL),
    "a scan on one SM": Case(Program([gpu(1.0, 0.008, 0.0, 0.0)]), ("underfilled",), SMALL),
    "half the SMs, no unit near a peak": Case(Program([gpu(0.99, 0.5, 0.02, 0.06)]), ("underfilled",), SMALL),
    # launch
    "eager inference of a small model": Case(Program([gpu(0.35, 0.12, 0.01, 0.05, pcie_rx_bytes_per_s=9e7)]), ("launch",), LAUNCH),
    "Hugging Face generate at batch 1": Case(Program([gpu(0.55, 0.5, 0.02, 0.5, pcie_rx_bytes_per_s=9e7)]), ("launch",), LAUNCH),
    "thin eager loop": Case(Program([gpu(0.04, 0.03, 0.0, 0.01, pcie_rx_bytes_per_s=5e7)]), ("launch",), LAUNCH),
    "launch-bound training beside a healthy loader": Case(
        Program([gpu(0.5, 0.4, 0.05, 0.2, pcie_rx_bytes_per_s=3e8)], [Process(cpu_pct=104, children=8, children_cpu_pct=220)], Host(busy_cores=4)),
        ("launch",),
        LAUNCH,
    ),
    "cuDNN cells that send 0.6 GB/s of commands": Case(Program([gpu(0.6, 0.15, 0.04, 0.01, pcie_rx_bytes_per_s=5.7e8)]), ("launch",), LAUNCH),
    "eager loop beside idle compile helpers": Case(
        Program([gpu(0.4, 0.3, 0.05, 0.1, pcie_rx_bytes_per_s=9e7)], [Process(children=33)]), ("launch",), LAUNCH
    ),
    "eager loop on a node whose neighbour reads from disk": Case(
        Program(
            [gpu(0.4, 0.3, 0.05, 0.1, pcie_rx_bytes_per_s=9e7), TRAINING],
            [Process(gpus=(0,)), Process(gpus=(1,))],
        ),
        ("launch", "compute"),
    ),
    # data
    "workers at full CPU": Case(
        Program(
            [gpu(wave(0.7, 0.2, 0.95), 0.9, 0.14, 0.48, pcie_rx_bytes_per_s=8e8)],
            [Process(cpu_pct=40, children=4, children_cpu_pct=390)],
            Host(busy_cores=6),
        ),
        ("data",),
        LOADER_RULES,
    ),
    "all cores at preprocessing": Case(
        Program(
            [gpu(wave(0.5, 0.2, 0.95), 0.9, 0.14, 0.48, pcie_rx_bytes_per_s=1.2e9)],
            [Process(cpu_pct=45, children=31, children_cpu_pct=3000)],
            Host(busy_cores=31.5),
        ),
        ("data",),
        ("cpu-preprocessing-bound",),
    ),
    "more workers than cores": Case(
        Program(
            [gpu(wave(0.5, 0.2, 0.95), 0.9, 0.14, 0.48, pcie_rx_bytes_per_s=1.2e9)],
            [Process(cpu_pct=45, children=96, children_cpu_pct=3080)],
            Host(busy_cores=31.9),
        ),
        ("data",),
        ("dataloader-oversubscribed",),
    ),
    "tokenizing in the main thread between large steps": Case(
        Program([gpu(wave(2.5, 0.8, 0.99), 0.93, 0.42, 0.4)]), ("data",), LOADER_RULES
    ),
    "tokenizing in the main thread, 50 ms between steps of 30 ms": Case(
        Program([gpu(0.37, 0.93, 0.42, 0.4, pcie_rx_bytes_per_s=1.8e7)]), ("data",), LOADER_RULES
    ),
    "the main thread waits for a remote store and loads whole batches": Case(
        Program([gpu(wave(1.0, 0.15, 0.95), 0.9, 0.14, 0.48, pcie_rx_bytes_per_s=4e8)], [Process(cpu_pct=25)], Host(busy_cores=0.4)),
        ("data",),
        LOADER_RULES,
    ),
    "tokenizing in threads": Case(Program([gpu(wave(1.5, 0.4, 0.99), 0.93, 0.42, 0.4)], [Process(cpu_pct=600)], Host(busy_cores=7)), ("data",), LOADER_RULES),
    "main thread reads small files from a slow disk": Case(
        Program(
            [gpu(wave(1.1, 0.2, 0.95), 0.9, 0.14, 0.48, pcie_rx_bytes_per_s=4e8)],
            [Process(cpu_pct=35, reads=1e8)],
            Host(busy_cores=1.4, iowait_pct=2.2, disk_reads=1e8),
        ),
        ("data",),
        LOADER_RULES,
    ),
    "reading through the page cache with two workers": Case(
        Program(
            [gpu(wave(0.9, 0.3, 0.95), 0.9, 0.14, 0.48, pcie_rx_bytes_per_s=9e8)],
            [Process(cpu_pct=45, children=2, children_cpu_pct=195)],
            Host(busy_cores=3.5),
        ),
        ("data",),
        LOADER_RULES,
    ),
    "workers that wait for object storage": Case(
        Program(
            [gpu(wave(2.0, 0.3, 0.95), 0.9, 0.14, 0.48, pcie_rx_bytes_per_s=4e8)],
            [Process(cpu_pct=22, children=4, children_cpu_pct=12)],
            Host(busy_cores=0.4),
        ),
        ("data",),
        LOADER_RULES,
    ),
    "reinforcement learning: the environment steps on the CPU": Case(
        Program([gpu(wave(1.6, 0.4, 0.9), 0.6, 0.05, 0.2, pcie_rx_bytes_per_s=5e7)], [Process(cpu_pct=100)]), ("data", "launch")
    ),
    # copy
    "pinned copies": Case(
        Program([gpu(0.1, 0.9, 0.0, 0.1, pcie_rx_bytes_per_s=48e9, pcie_tx_bytes_per_s=3e9, gpu_util_pct=100.0)]), ("copy",), never=("h2d-unpinned-copy",)
    ),
    "pinned copies to the host": Case(
        Program([gpu(0.1, 0.9, 0.0, 0.1, pcie_tx_bytes_per_s=50e9, pcie_rx_bytes_per_s=1e9)]), ("copy",), never=("h2d-unpinned-copy",)
    ),
    "pinned copies half of the time": Case(
        Program([gpu(wave(0.5, 0.25, 0.99), 0.9, 0.5, 0.3, pcie_rx_bytes_per_s=wave(0.5, 0.25, 1e7, 50e9))]),
        ("copy",),
        never=("h2d-unpinned-copy",),
    ),
    "pageable copies on a slow host": Case(
        Program([gpu(0.05, 0.9, 0.0, 0.1, pcie_rx_bytes_per_s=6e9)]), ("copy",), ("h2d-unpinned-copy",)
    ),
    "pageable copies over PCIe 3": Case(
        Program([gpu(0.05, 0.9, 0.0, 0.1, pcie_rx_bytes_per_s=4.5e9)], card={"pcie_link_gen_max": 3, "nvlink_links": None}),
        ("copy",),
        ("h2d-unpinned-copy",),
    ),
    "tensors pulled to the host each step": Case(
        Program([gpu(0.2, 0.9, 0.1, 0.3, pcie_tx_bytes_per_s=2.5e9)]), ("copy",)
    ),
    "optimizer state swapped both ways": Case(
        Program([gpu(0.3, 0.9, 0.4, 0.3, pcie_tx_bytes_per_s=12e9, pcie_rx_bytes_per_s=12e9)]), ("copy",)
    ),
    "kernels that read host memory": Case(Program([gpu(1.0, 0.95, 0.0, 0.02, pcie_rx_bytes_per_s=45e9)]), ("copy",)),
    # communication
    "gradients over NVLink": Case(
        Program(
            [gpu(0.9, 0.5, 0.04, 0.36, nvlink_tx_bytes_per_s=110e9, nvlink_rx_bytes_per_s=110e9)] * 4,
            [Process(gpus=(k,)) for k in range(4)],
        ),
        ("communication",),
        ("comm-not-overlapped",),
    ),
    "gradients over PCIe": Case(
        Program(
            [gpu(0.97, 0.18, 0.03, 0.09, pcie_tx_bytes_per_s=20e9, pcie_rx_bytes_per_s=20e9)] * 2,
            [Process(gpus=(0,)), Process(gpus=(1,))],
            card={"nvlink_links": None, "nvlink_bytes_per_s_per_link": None},
        ),
        ("communication",),
        ("comm-not-overlapped",),
    ),
    "gradients over sockets": Case(
        Program(
            [gpu(0.98, 0.14, 0.02, 0.03, pcie_tx_bytes_per_s=8e8, pcie_rx_bytes_per_s=8e8)] * 2,
            [Process(gpus=(0,), cpu_pct=180), Process(gpus=(1,), cpu_pct=180)],
            Host(busy_cores=4, net=1.1e9),
        ),
        ("communication",),
        ("comm-not-overlapped",),
    ),
    "a collective that nobody answers": Case(
        Program([gpu(1.0, 0.12, 0.0, 0.0, int_active=0.01)] * 2, [Process(gpus=(0,)), Process(gpus=(1,))]), ("communication",)
    ),
    "sharded training at a large batch": Case(
        Program(
            [gpu(0.99, 0.92, 0.44, 0.42, nvlink_tx_bytes_per_s=80e9, nvlink_rx_bytes_per_s=80e9)] * 8,
            [Process(gpus=(k,)) for k in range(8)],
        ),
        ("compute",),
        healthy=True,
    ),
    "rank 0 works on the host while the other spins": Case(
        Program(
            [
                gpu(0.45, 0.9, 0.4, 0.4, nvlink_tx_bytes_per_s=4e9, nvlink_rx_bytes_per_s=4e9),
                gpu(0.99, 0.48, 0.19, 0.19, nvlink_tx_bytes_per_s=4e9, nvlink_rx_bytes_per_s=4e9),
            ],
            [Process(gpus=(0,)), Process(gpus=(1,))],
        ),
        ("launch", "data", "communication"),
        ("rank-straggler",),
    ),
    "rank 0 saves while the others spin": Case(
        Program(
            [
                gpu(wave(10, 5, 0.99), 0.9, 0.42, 0.4, nvlink_tx_bytes_per_s=wave(10, 5, 30e9), nvlink_rx_bytes_per_s=wave(10, 5, 30e9), pcie_tx_bytes_per_s=wave(10, 5, 1e7, 9e8)),
                gpu(0.99, 0.5, 0.21, 0.2, nvlink_tx_bytes_per_s=wave(10, 5, 30e9), nvlink_rx_bytes_per_s=wave(10, 5, 30e9)),
            ],
            [Process(gpus=(0,), writes=wave(10, 5, 0.0, 8e8)), Process(gpus=(1,))],
        ),
        ("checkpoint",),
        ("checkpoint-stall",),
    ),
    # checkpoint
    "a save every few seconds": Case(
        Program([gpu(wave(5, 3, 0.99), 0.93, 0.42, 0.4, pcie_tx_bytes_per_s=wave(5, 3, 1e7, 1.5e9))], [Process(writes=wave(5, 3, 0.0, 6e8))]),
        ("checkpoint",),
        ("checkpoint-stall",),
    ),
    "a save to a slow network file system": Case(
        Program([gpu(wave(12, 4, 0.99), 0.93, 0.42, 0.4)], [Process(cpu_pct=wave(12, 4, 100, 12), writes=wave(12, 4, 0.0, 9e7))]),
        ("checkpoint",),
        ("checkpoint-stall",),
    ),
    # contention
    "three small trainings on one GPU": Case(
        Program([gpu(0.99, 0.8, 0.3, 0.3)], [Process(gpu_bytes=9e9), Process(gpu_bytes=8e9), Process(gpu_bytes=7e9)]),
        ("contention",),
        ("gpu-co-tenant-contention",),
    ),
    "two launch-bound loops that do not disturb each other": Case(
        Program([gpu(0.4, 0.1, 0.0, 0.02, pcie_rx_bytes_per_s=1.8e8)], [Process(gpu_bytes=1.1e9), Process(gpu_bytes=1e9)]),
        ("launch",),
        never=("gpu-co-tenant-contention",),
    ),
    "training beside a sleeping notebook": Case(
        Program([TRAINING], [Process(), Process(cpu_pct=1.5, gpu_bytes=4e9)]), ("compute",), healthy=True
    ),
    "training whose loader processes hold contexts": Case(
        Program(
            [TRAINING],
            [Process(children=4, children_cpu_pct=240), *[Process(cpu_pct=60, gpu_bytes=5.2e8) for _ in range(4)]],
        ),
        ("compute",),
        healthy=True,
    ),
    "ranks that leave contexts on GPU 0": Case(
        Program(
            [TRAINING | {"nvlink_tx_bytes_per_s": 30e9, "nvlink_rx_bytes_per_s": 30e9}] * 2,
            [Process(gpus=(0,)), Process(gpus=(1,))],
        ),
        ("compute",),
        healthy=True,
    ),
    # clocks
    "clocks locked at 1,200 MHz": Case(Program([gpu(0.99, 0.93, 0.45, 0.3, sm_clock_mhz=1200, power_w=380.0)]), ("clocks",), ("clocks-locked-low",)),
    "overheating": Case(
        Program([gpu(0.99, 0.93, 0.45, 0.3, sm_clock_mhz=900, clocks_event_reasons=0x48, temperature_c=92.0, power_w=350.0)]),
        ("clocks",),
        ("hw-slowdown-active",),
    ),
    "power brake half of the time": Case(
        Program([gpu(0.99, 0.93, 0.45, 0.3, sm_clock_mhz=wave(4, 2, 900, 1900), clocks_event_reasons=wave(4, 2, 0x88, 0))]),
        ("clocks",),
        ("hw-slowdown-active",),
    ),
    "power limit at half of the default": Case(
        Program([gpu(0.99, 0.93, 0.45, 0.3, sm_clock_mhz=1100, clocks_event_reasons=4, power_w=348.0, power_limit_w=350.0)]),
        ("clocks",),
        ("power-cap-limited",),
    ),
    # idle
    "a notebook that computes with pandas": Case(Program([gpu(0.0001, 0.0)], [Process(cpu_pct=100)]), ("idle",), ("gpu-allocated-idle",)),
    "weights loaded, no request": Case(Program([gpu(0.0001, 0.0)], [Process(cpu_pct=3)]), ("idle",), ("gpu-memory-held-idle",)),
    "a request now and then": Case(Program([gpu(wave(8, 0.4, 0.9), 0.8, 0.1, 0.6)], [Process(cpu_pct=wave(8, 0.4, 100, 3))]), ("idle",)),
    "four GPUs held, one used": Case(
        Program([TRAINING, *[gpu(0.0001, 0.0)] * 3], [Process(gpus=(0, 1, 2, 3))]), ("compute",), ("job-partial-gpu-use",)
    ),
    # memory
    "a slow even leak": Case(
        Program([TRAINING | {"mem_used_bytes": lambda t: 20e9 + 2e8 * t}]), ("compute",), ("gpu-memory-leak",)
    ),
    "memory that grows in steps and then stays": Case(
        Program([TRAINING | {"mem_used_bytes": lambda t: 20e9 + (9e9 if t > 12 else 0.0)}]), ("compute",), healthy=True
    ),
    "memory that breathes with each step": Case(
        Program([TRAINING | {"mem_used_bytes": lambda t: 40e9 + 8e9 * (t % 3)}]), ("compute",), healthy=True
    ),
}  # fmt: skip
