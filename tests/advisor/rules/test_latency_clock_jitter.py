"""latency-clock-jitter: a latency that follows the clock."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestLatencyClockJitter(RuleCases):
    """A latency that follows the clock."""

    rule = "latency-clock-jitter"
    healthy: ClassVar[dict[str, Any]] = {"latency_clock_corr": 0.0}
    fires: ClassVar[dict[str, Any]] = {"e2e_p95_ratio": 3.0, "sm_clock_cv": 0.15, "latency_clock_corr": 0.6}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"sm_clock_cv": 0.02},
        {"latency_clock_corr": 0.1},
        {"e2e_p95_ratio": 1.2},
        {"waiting_share": 0.5},
        {"hw_slowdown_share": 0.2},
        {"age_s": 60.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"e2e_p95_ratio": 1.8, "sm_clock_cv": 0.05, "latency_clock_corr": 0.6}
    lacks = ("latency_clock_corr",)


def test_persistence_comes_first_where_it_is_off() -> None:
    """The cheapest change, said only where it is one."""
    (finding,) = TestLatencyClockJitter.judge(TestLatencyClockJitter.fires | {"persistence_mode": False}).findings

    assert finding.change[0].text == "systemctl enable --now nvidia-persistenced"
    assert "persistenced" not in TestLatencyClockJitter().found().change[0].text
