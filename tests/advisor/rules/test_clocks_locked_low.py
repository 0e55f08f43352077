"""clocks-locked-low: clocks far below their maximum for no given reason."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestClocksLockedLow(RuleCases):
    """Clocks far below their maximum for no given reason."""

    rule = "clocks-locked-low"
    fires: ClassVar[dict[str, Any]] = {"sm_clock_p95_ratio": 0.6, "sm_clock_p95_mhz": 1200.0, "power_cap_share": 0.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"sm_clock_p95_ratio": 1.0},
        {"power_cap_share": 0.9},
        {"hw_slowdown_share": 0.2},
        {"sw_thermal_share": 0.2},
        {"loaded_share": 0.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"sm_clock_p95_ratio": 0.9, "power_cap_share": 0.0}
    lacks = ("sm_clock_top_mhz",)
