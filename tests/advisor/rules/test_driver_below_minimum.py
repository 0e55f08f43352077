"""driver-below-minimum: a driver that is too old."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestDriverBelowMinimum(RuleCases):
    """A driver that is too old."""

    rule = "driver-below-minimum"
    healthy: ClassVar[dict[str, Any]] = {"driver_major": 580, "torch_cuda_major": 13, "torch": "2.14.1+cu130"}
    fires: ClassVar[dict[str, Any]] = {
        "driver_major": 535,
        "driver_version": "535.104.05",
        "torch_cuda_major": 13,
        "torch": "2.14.1+cu130",
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"torch_cuda_major": 12},
        {"driver_major": 580},
        {"torch_cuda_major": 99},
    ]
    lacks = ("driver_major", "note_log_error")


def test_a_wheel_is_offered_that_the_driver_runs() -> None:
    """T9.1: cu126 runs with 535; with 470 cu118 does."""
    newer = TestDriverBelowMinimum().found()
    older = TestDriverBelowMinimum.judge(
        TestDriverBelowMinimum.fires | {"driver_major": 470, "driver_version": "470.82.01", "torch_cuda_major": 12}
    ).findings[0]

    assert any("whl/cu126" in change.text for change in newer.change)
    assert not any("whl/cu118" in change.text for change in newer.change)
    assert any("whl/cu118" in change.text for change in older.change)


def test_nothing_is_said_of_the_speed_of_a_job_that_cannot_run() -> None:
    """An idle GPU is what a driver that is too old looks like."""
    from advisor.engine import evaluate
    from advisor.rule import load
    from tests.advisor.rules.cases import frames

    starved = {
        "share_data": 0.8,
        "share_compute": 0.2,
        "busy": 0.2,
        "children": 0.0,
        "children_cores": 0.0,
        "main_cores": 4.0,
        "free_cores": 27.0,
    }
    found = {finding.rule for finding in evaluate(load(), frames(**(TestDriverBelowMinimum.fires | starved))).findings}

    assert "driver-below-minimum" in found
    assert "dataloader-too-few-workers" not in found
