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
        {"base_other_work": True},
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


def test_the_first_slow_run_is_named() -> None:
    """With its start, how many were slow since, and what changed with it; where nothing is known to have, that is said."""
    bad = {"base_first_bad_run": "west/4711", "base_first_bad_at": "2026-11-22 11:00 UTC", "base_bad_runs": 5}
    row = TestStepTimeRegression.fires | bad
    changed = TestStepTimeRegression.judge(row).findings[0].summary.english()
    same = (
        TestStepTimeRegression.judge({key: value for key, value in row.items() if key != "base_changes"})
        .findings[0]
        .summary.english()
    )

    assert changed == (
        "A step takes 0.600 s; in 5 earlier runs it took 0.500 s. The first slow run is west/4711, begun 2026-11-22 11:00 UTC; slow runs"
        " since: 5. Changed with it: torch 2.8 -> 2.9."
    )
    assert same.endswith("slow runs since: 5. Versions, nodes and flags are the same as far as they are known.")


def test_steps_that_grow_slowly_are_found_by_their_slope() -> None:
    """No run is a tenth slower than the baseline that follows them; the interval leaves out that they do not grow."""
    drifts = {"base_drift_ratio": 1.2, "base_drift_low_ratio": 1.15, "base_drift_days": 20.0, "steps": 400.0}
    row = TestStepTimeRegression.healthy | drifts
    finding = TestStepTimeRegression.judge(row | {"step_time_s": 0.52}).findings[0]

    assert finding.summary.english() == (
        "Steps grow slowly from run to run: over 20 days to 1.20 times, at least 1.15 times (95 %). A step takes 0.520 s now."
    )
    assert finding.expected_gain is not None
    assert finding.expected_gain.high == 1.2
    assert not TestStepTimeRegression.judge(row | {"base_drift_low_ratio": 1.04}).findings
