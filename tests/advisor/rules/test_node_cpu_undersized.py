"""node-cpu-undersized: too few cores for the GPUs."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestNodeCpuUndersized(RuleCases):
    """Too few cores for the GPUs."""

    rule = "node-cpu-undersized"
    healthy: ClassVar[dict[str, Any]] = {"day_cpu_saturated_share": 0.0}
    fires: ClassVar[dict[str, Any]] = {"cores": 32.0, "node_gpus": 8, "day_cpu_saturated_share": 0.5, "share_data": 0.3}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"cores": 128.0},
        {"day_cpu_saturated_share": 0.1},
        {"share_data": 0.02},
        {"other_cores": 20.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"cores": 32.0, "node_gpus": 8, "day_cpu_saturated_share": 0.2, "share_data": 0.3}
    lacks = ("node_gpus",)


def test_before_a_day_has_passed_the_window_tells_at_low_confidence() -> None:
    """Three cores for each GPU, all of them busy, and GPUs that wait."""
    (finding,) = TestNodeCpuUndersized.judge(
        {"cores": 24.0, "node_gpus": 8, "day_cpu_saturated_share": None, "cpu_busy_share": 0.97, "share_data": 0.3}
    ).findings

    assert finding.confidence == "low"
    assert "97% of them are busy" in finding.summary.english()
