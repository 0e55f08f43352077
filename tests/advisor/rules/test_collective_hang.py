"""collective-hang: ranks that spin in a collective."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestCollectiveHang(RuleCases):
    """Ranks that spin in a collective."""

    rule = "collective-hang"
    healthy: ClassVar[dict[str, Any]] = {"working_gpus": 8, "since_step_s": 0.3, "step_time_s": 0.5}
    fires: ClassVar[dict[str, Any]] = {
        "working_gpus": 8, "busy": 1.0, "power_share": 0.3, "tensor_active": 0.0, "since_step_s": 900.0, "step_time_s": 0.5,
    }  # fmt: skip
    silent: ClassVar[list[dict[str, Any]]] = [
        {"since_step_s": 100.0},
        {"power_share": 0.8},
        {"tensor_active": 0.2},
        {"busy": 0.5},
        {"working_gpus": 1},
        {"told_phase": "checkpoint"},
        {"step_time_s": 120.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "working_gpus": 8, "busy": 0.92, "power_share": 0.3, "tensor_active": 0.0, "since_step_s": 900.0, "step_time_s": 0.5,
    }  # fmt: skip
    lacks = ("busy",)


def test_without_reports_idle_units_tell_at_low_confidence() -> None:
    """The whole window of spinning: few SMs, no pipe and no memory at work."""
    quiet = {"since_step_s": None, "step_time_s": None, "sm_active": 0.1, "dram_active": 0.001}
    (finding,) = TestCollectiveHang.judge(TestCollectiveHang.fires | quiet).findings

    assert (finding.severity, finding.confidence) == ("critical", "low")
    assert "does not report" in finding.summary.english()
    assert TestCollectiveHang.judge(TestCollectiveHang.fires | quiet | {"dram_active": 0.05}).findings == []
    assert TestCollectiveHang.judge(TestCollectiveHang.fires | quiet | {"window_s": 60.0}).findings == []
