"""gpu-allocated-idle: a job none of whose GPUs computes."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestGpuAllocatedIdle(RuleCases):
    """A job none of whose GPUs computes."""

    rule = "gpu-allocated-idle"
    fires: ClassVar[dict[str, Any]] = {
        "busy": 0.0001,
        "main_cores": 0.02,
        "share_idle": 1.0,
        "share_compute": 0.0,
        "share_launch": 0.0,
        "bottleneck": "idle",
        "working_gpus": 0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"busy": 0.05}, {"working_gpus": 1}, {"held_gpus": 0}, {"share_idle": 0.3}]
    between: ClassVar[dict[str, Any] | None] = {
        "busy": 0.01,
        "main_cores": 0.02,
        "share_idle": 1.0,
        "share_compute": 0.0,
        "share_launch": 0.0,
        "bottleneck": "idle",
        "working_gpus": 0,
    }
    lacks = ("held_gpus",)


def test_it_counts_one_gpu_as_well_as_eight() -> None:
    """No plural that one GPU makes wrong."""
    (one,) = TestGpuAllocatedIdle.judge(TestGpuAllocatedIdle.fires | {"held_gpus": 1}).findings

    assert one.summary.english().startswith("GPUs that the job holds: 1. In 300 s the compute engine worked ")
