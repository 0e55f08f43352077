"""serving-underbatched: too few sequences for each read of the weights."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestServingUnderbatched(RuleCases):
    """Too few sequences for each read of the weights."""

    rule = "serving-underbatched"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "memory_bandwidth",
        "share_memory_bandwidth": 0.96,
        "share_compute": 0.0,
        "dram_active": 0.74,
        "dram_active_when_busy": 0.77,
        "tensor_active": 0.03,
        "tensor_active_when_busy": 0.03,
        "fp32_active_when_busy": 0.0001,
        "mem_used_share_max": 0.1,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"tensor_active_when_busy": 0.24},
        {"tensor_active_when_busy": 0.0},
        {"mem_used_share_max": 0.95},
        {"dram_active_when_busy": 0.4},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "bottleneck": "memory_bandwidth",
        "share_memory_bandwidth": 0.96,
        "share_compute": 0.0,
        "dram_active": 0.74,
        "dram_active_when_busy": 0.77,
        "tensor_active": 0.03,
        "tensor_active_when_busy": 0.1,
        "fp32_active_when_busy": 0.0001,
        "mem_used_share_max": 0.1,
    }
    lacks = ("dram_active",)
