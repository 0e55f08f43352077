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


def test_it_says_whose_the_gpu_is_where_others_hold_it() -> None:
    """The scheduler gave it to one job, and a process of somebody else sits on it."""
    cases = TestGpuMemoryHeldIdle
    told = {"allocated_to": "west/4711", "foreign_processes": 1, "held_bytes": 2 << 30}
    (one,) = cases.judge(cases.fires | told).findings
    assert (
        "The scheduler gave the GPU to west/4711, and of the processes on it 1 belong to somebody else." in one.summary.english()
    )
