"""power-limit-sweet-spot: power that does not go into math."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestPowerLimitSweetSpot(RuleCases):
    """Power that does not go into math."""

    rule = "power-limit-sweet-spot"
    healthy: ClassVar[dict[str, Any]] = {"day_power_share": 0.5, "day_hours": 24.0, "note_energy_policy": True}
    fires: ClassVar[dict[str, Any]] = {
        "day_power_share": 0.92,
        "day_hours": 24.0,
        "note_energy_policy": True,
        "day_dram_active": 0.7,
        "day_sm_active": 0.9,
        "power_85": 595,
        "clock_92": 1822,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"note_energy_policy": False},
        {"day_hours": 2.0},
        {"day_dram_active": 0.3},
        {"note_deadline": True},
        {"power_limit_ratio": 0.8},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "day_power_share": 0.8,
        "day_hours": 24.0,
        "note_energy_policy": True,
        "day_dram_active": 0.7,
    }
    lacks = ("day_power_share",)


def test_the_numbers_are_the_cards() -> None:
    """92 % of its clock, 85 % of its limit, and the way back."""
    finding = TestPowerLimitSweetSpot().found()

    assert finding.change[0].text.startswith("nvidia-smi -lgc 0,1822 ")
    assert finding.change[1].text.startswith("nvidia-smi -pl 595 ")
    assert finding.rollback.english() == "nvidia-smi -rgc && nvidia-smi -pl 700"
