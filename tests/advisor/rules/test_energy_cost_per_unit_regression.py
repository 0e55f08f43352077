"""energy-cost-per-unit-regression: a sample that costs more energy."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestEnergyCostPerUnitRegression(RuleCases):
    """A sample that costs more energy."""

    rule = "energy-cost-per-unit-regression"
    healthy: ClassVar[dict[str, Any]] = {
        "energy_j_per_sample": 10.0,
        "base_energy_j_per_sample": 10.0,
        "base_energy_mad": 0.1,
        "base_runs": 5,
    }
    fires: ClassVar[dict[str, Any]] = {
        "energy_j_per_sample": 13.0,
        "base_energy_j_per_sample": 10.0,
        "base_energy_mad": 0.1,
        "base_runs": 5,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"energy_j_per_sample": 10.5},
        {"base_energy_mad": 2.0},
        {"base_runs": 1},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "energy_j_per_sample": 11.0,
        "base_energy_j_per_sample": 10.0,
        "base_energy_mad": 0.1,
        "base_runs": 5,
    }
    lacks = ("base_energy_j_per_sample",)


def test_idle_time_makes_it_a_warning() -> None:
    """A fifth of the day held and unused."""
    assert TestEnergyCostPerUnitRegression().found().severity == "advice"
    assert (
        TestEnergyCostPerUnitRegression.judge(TestEnergyCostPerUnitRegression.fires | {"idle_share_day": 0.3})
        .findings[0]
        .severity
        == "warn"
    )
