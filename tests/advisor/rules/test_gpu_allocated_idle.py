"""gpu-allocated-idle: a job none of whose GPUs computes."""

from typing import Any, ClassVar

import pytest

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


UNUSED: dict[str, Any] = {
    "free": True,
    "busy": 0.0,
    "working_gpus": 0,
    "held_gpus": 0,
    "share_idle": None,
    "allocated_gpus": 8,
    "allocated_idle_s": 5400.0,
}


def test_gpus_that_no_process_ever_used_are_idle_too() -> None:
    """The scheduler's word alone: nothing is held, and nobody is listed."""
    (one,) = TestGpuAllocatedIdle.judge(UNUSED).findings

    assert one.summary.english() == ("GPUs that the scheduler gave the job: 8. No process of it has used one for 90 minutes.")
    assert ("allocated_idle_s", 5400.0) in [(line.name, line.value) for line in one.evidence]


@pytest.mark.parametrize(
    "told", [{"allocated_idle_s": 1200.0}, {"allocated_gpus": None, "allocated_idle_s": None}, {"note_declared_idle": True}]
)
def test_it_is_silent_while_a_job_may_still_load_or_is_meant_to_wait(told: dict[str, Any]) -> None:
    """Half an hour for data and weights; nobody's free GPU; a reservation."""
    assert TestGpuAllocatedIdle.judge(UNUSED | told).findings == []


def test_it_names_the_scheduler_that_gave_them_though_no_process_tells() -> None:
    """scancel has the number; no process has one to kill."""
    (one,) = TestGpuAllocatedIdle.judge(UNUSED | {"scheduler": "slurm", "slurm_job": "4711", "pid": None}).findings
    assert "scancel 4711  # after asking its owner" in [step.text for step in one.change]
    assert not any(step.text.startswith("kill") for step in one.change)
