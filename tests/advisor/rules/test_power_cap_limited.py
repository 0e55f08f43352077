"""power-cap-limited: a limit below the default."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestPowerCapLimited(RuleCases):
    """A limit below the default."""

    rule = "power-cap-limited"
    fires: ClassVar[dict[str, Any]] = {
        "power_limit_ratio": 0.5,
        "power_limit_w": 350.0,
        "power_cap_share": 0.9,
        "sm_clock_ratio": 0.6,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"power_limit_ratio": 1.0},
        {"power_cap_share": 0.1},
        {"sm_clock_ratio": 0.97},
        {"loaded_share": 0.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"power_limit_ratio": 0.5, "power_cap_share": 0.4, "sm_clock_ratio": 0.9}
    lacks = ("power_cap_share",)


def test_it_says_nothing_about_capping_at_the_default_limit() -> None:
    """Full load caps at the default limit: that is no fault."""
    assert TestPowerCapLimited.judge({"power_limit_ratio": 1.0, "power_cap_share": 1.0, "sm_clock_ratio": 0.73}).findings == []
