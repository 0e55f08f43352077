"""hw-slowdown-active: hardware slowdown under load."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestHwSlowdownActive(RuleCases):
    """Hardware slowdown under load."""

    rule = "hw-slowdown-active"
    fires: ClassVar[dict[str, Any]] = {"hw_slowdown_share": 0.3, "thermal_slowdown_share": 0.3, "sm_clock_ratio": 0.5}
    silent: ClassVar[list[dict[str, Any]]] = [{"hw_slowdown_share": 0.0}, {"loaded_share": 0.0}]
    between: ClassVar[dict[str, Any] | None] = {"hw_slowdown_share": 0.03}
    lacks = ("hw_slowdown_share",)


def test_it_is_critical_only_when_it_takes_much_of_the_time() -> None:
    """A twentieth of the time is a warning, a fifth is critical."""
    assert TestHwSlowdownActive().found().severity == "critical"
    assert TestHwSlowdownActive.judge({"hw_slowdown_share": 0.06}).findings[0].severity == "warn"
