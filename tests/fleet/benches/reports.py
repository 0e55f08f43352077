"""Reports of bench runs, as a node sends them."""

import time
from typing import Any

from fleet.inventory.models import Node
from wire.bench import BenchGpu, BenchReport, Score, Unit, encode

BF16 = "matmul_bf16_8192"


def score(gpu: str, value: float, name: str = BF16, unit: Unit = "flop_per_second") -> Score:
    """A test's score."""
    return Score(name=name, gpu=gpu, value=value, p5=value * 0.9, p95=value * 1.1, unit=unit, iterations=100, sm_clock_mhz=1700.0)


def report(
    of: Node, values: dict[str, float] | None = None, *, name: str = BF16, limit_w: float = 700.0, **more: Any
) -> BenchReport:
    """A report of the node with one score for each GPU (UUID: value); without values, 700 TFLOP/s for each of its GPUs."""
    values = {gpu.uuid: 700e12 for gpu in of.gpus.all()} if values is None else values
    gpus = tuple(
        BenchGpu(uuid=uuid, index=number, model="NVIDIA H200", power_limit_w=limit_w) for number, uuid in enumerate(values)
    )
    told: dict[str, Any] = {"at": time.time() - 60, "seconds": 40.0, "protocol": "quick", "versions": {"torch": "2.11.0"}}
    scores = tuple(score(uuid, value, name) for uuid, value in values.items())
    return BenchReport(**{"node": of.name, "gpus": gpus, "scores": scores, **told, **more})


def report_of(of: Node, **more: Any) -> bytes:
    """The same as JSON."""
    return encode(report(of, **more))
