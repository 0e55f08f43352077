"""job-partial-gpu-use: some of a job's GPUs never work."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestJobPartialGpuUse(RuleCases):
    """Some of a job's GPUs never work."""

    rule = "job-partial-gpu-use"
    fires: ClassVar[dict[str, Any]] = {"gpus": 4, "held_gpus": 4, "working_gpus": 3, "idle_indices": [2]}
    silent: ClassVar[list[dict[str, Any]]] = [{"working_gpus": 4}, {"working_gpus": 0}]
    lacks = ("working_gpus",)


def test_it_only_advises_where_the_idle_gpu_is_not_even_held() -> None:
    """An allocation that no process touched is no proof of waste."""
    evaluation = TestJobPartialGpuUse.judge({"gpus": 2, "held_gpus": 1, "working_gpus": 1, "idle_indices": [1]})

    assert [finding.severity for finding in evaluation.findings] == ["advice"]
