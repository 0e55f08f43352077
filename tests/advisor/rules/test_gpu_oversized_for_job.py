"""gpu-oversized-for-job: a job that would fit a slice."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestGpuOversizedForJob(RuleCases):
    """A job that would fit a slice."""

    rule = "gpu-oversized-for-job"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "underfilled",
        "sm_active": 0.13,
        "dram_active": 0.01,
        "mem_used_share_max": 0.01,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"gpus": 2},
        {"sm_active": 0.5},
        {"dram_active": 0.5},
        {"mem_used_share_max": 0.5},
        {"bottleneck": "data"},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "bottleneck": "underfilled",
        "sm_active": 0.3,
        "dram_active": 0.01,
        "mem_used_share_max": 0.01,
    }
    lacks = ("dram_active",)
