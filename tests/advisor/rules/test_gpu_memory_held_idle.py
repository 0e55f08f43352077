"""gpu-memory-held-idle: memory held by a process that does nothing."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestGpuMemoryHeldIdle(RuleCases):
    """Memory held by a process that does nothing."""

    rule = "gpu-memory-held-idle"
    fires: ClassVar[dict[str, Any]] = {
        "busy": 0.0001,
        "main_cores": 0.02,
        "share_idle": 1.0,
        "share_compute": 0.0,
        "share_launch": 0.0,
        "bottleneck": "idle",
        "working_gpus": 0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"busy": 0.05},
        {"held_bytes": 1e8},
        {"main_cores": 1.0},
        {"share_idle": 0.2},
        {"free": True},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "busy": 0.01,
        "main_cores": 0.02,
        "share_idle": 1.0,
        "share_compute": 0.0,
        "share_launch": 0.0,
        "bottleneck": "idle",
        "working_gpus": 0,
    }
    lacks = ("busy",)
