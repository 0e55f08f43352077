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
        {"base_energy_other_work": True},
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


def test_the_first_dear_run_is_named_with_what_changed() -> None:
    """Its own: steps may have been slow since another one."""
    bad = {
        "base_energy_first_bad_run": "west/4711", "base_energy_first_bad_at": "2026-11-22 11:00 UTC", "base_energy_bad_runs": 5,
        "base_energy_changes": "driver 1 -> 2", "base_first_bad_run": "west/1", "base_changes": "torch 1 -> 2",
    }  # fmt: skip
    finding = TestEnergyCostPerUnitRegression.judge(TestEnergyCostPerUnitRegression.fires | bad).findings[0]

    assert finding.summary.english() == (
        "A sample takes 13 J; in 5 earlier runs it took 10 J. The first such run is west/4711, begun 2026-11-22 11:00 UTC; runs since: 5."
        " Changed with it: driver 1 -> 2."
    )
    assert any("driver 1 -> 2" in step.text for step in finding.change)
