"""step-time-regression: a job that is slower than it was."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestStepTimeRegression(RuleCases):
    """A job that is slower than it was."""

    rule = "step-time-regression"
    healthy: ClassVar[dict[str, Any]] = {
        "step_time_s": 0.5,
        "base_step_time_s": 0.5,
        "base_step_time_mad_s": 0.005,
        "base_runs": 5,
        "base_age_days": 3.0,
    }
    fires: ClassVar[dict[str, Any]] = {
        "step_time_s": 0.6,
        "base_step_time_s": 0.5,
        "base_step_time_mad_s": 0.005,
        "base_runs": 5,
        "base_age_days": 3.0,
        "base_changes": "torch 2.8 -> 2.9",
        "steps": 400.0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"step_time_s": 0.52},
        {"base_step_time_mad_s": 0.1},
        {"told_phase": "eval"},
        {"steps": 10.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "step_time_s": 0.53,
        "base_step_time_s": 0.5,
        "base_step_time_mad_s": 0.005,
        "base_runs": 5,
        "base_age_days": 3.0,
    }
    lacks = ("base_step_time_s",)


def test_what_changed_is_named_and_quoted() -> None:
    """The first suspect is what is not the same."""
    finding = TestStepTimeRegression().found()

    assert "Changed since: torch 2.8 -> 2.9" in finding.summary.english()
    assert finding.expected_gain is not None
    assert finding.expected_gain.high == 1.2


def test_an_old_or_thin_baseline_is_advice_alone() -> None:
    """Two runs, or one of months ago, prove little."""
    assert TestStepTimeRegression.judge(TestStepTimeRegression.fires | {"base_runs": 2}).findings[0].severity == "advice"
    assert TestStepTimeRegression.judge(TestStepTimeRegression.fires | {"base_age_days": 90.0}).findings[0].severity == "advice"
