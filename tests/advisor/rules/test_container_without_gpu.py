"""container-without-gpu: a GPU that its container never opened."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestContainerWithoutGpu(RuleCases):
    """A GPU that its container never opened."""

    rule = "container-without-gpu"
    healthy: ClassVar[dict[str, Any]] = {"allocated_to": "team-a/train-0"}
    fires: ClassVar[dict[str, Any]] = {
        "allocated_to": "team-a/train-0",
        "processes": 0,
        "mem_used_max_bytes": 600000000.0,
        "gpu_util_pct": 0.0,
        "window_s": 300.0,
        "other_cores": 12.0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"processes": 1},
        {"other_cores": 0.5},
        {"window_s": 60.0},
        {"note_maintenance": True},
    ]
    lacks = ("allocated_to",)


def test_one_that_was_just_given_its_gpu_may_still_copy_its_data() -> None:
    """Ten minutes; whom only an exporter's labels name has no such time, and is judged by the window."""
    cases = TestContainerWithoutGpu
    assert cases.judge(cases.fires | {"allocated_s": 400.0}).findings == []
    assert len(cases.judge(cases.fires | {"allocated_s": 700.0}).findings) == 1
