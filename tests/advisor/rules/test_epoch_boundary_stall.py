"""epoch-boundary-stall: workers are rebuilt at every epoch."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestEpochBoundaryStall(RuleCases):
    """Workers are rebuilt at every epoch."""

    rule = "epoch-boundary-stall"
    healthy: ClassVar[dict[str, Any]] = {"epoch_gap_s": 1.0, "step_gap_share": 0.002, "step_time_s": 0.4}
    fires: ClassVar[dict[str, Any]] = {"epoch_gap_s": 30.0, "step_gap_share": 0.1}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"epoch_gap_s": 5.0},
        {"step_time_s": 12.0},  # five steps are a minute
        {"step_gap_share": 0.005},
        {"checkpoint_save_s": 25.0},
        {"told_phase": "eval"},
        {"note_phase": "eval"},
    ]
    between: ClassVar[dict[str, Any] | None] = fires | {"epoch_gap_s": 8.0, "step_gap_share": 0.015}
    lacks = ("step_time_s", "dataloader_workers")


def test_it_says_the_gap_its_share_and_the_flag() -> None:
    """A tenth of the time is 1 / 0.9 of speed at most."""
    finding = TestEpochBoundaryStall().found()

    assert (
        finding.summary.english()
        == "At the end of each epoch the workers are replaced and no step runs for 30 s: 10.0% of the time."
    )
    assert any("persistent_workers=True" in change.text for change in finding.change)
    assert (finding.severity, finding.confidence, finding.recoverable) == ("advice", "high", 0.0737)  # 1 - 1 / sqrt(1.05 * 1.11)
    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == (1.05, 1.11)


def test_a_save_at_the_boundary_is_subtracted() -> None:
    """Of 30 s 15 are the save's: the rest is still a stall."""
    assert TestEpochBoundaryStall.judge(TestEpochBoundaryStall.fires | {"checkpoint_save_s": 15.0}).findings


def test_workers_that_stay_end_the_finding() -> None:
    """A window in which none was replaced tells no gap: that is what the change was for."""
    stays = {"epoch_gap_s": None, "step_gap_share": None}

    assert TestEpochBoundaryStall.judge(stays, is_open=True).findings == []
    assert TestEpochBoundaryStall.judge(stays).not_evaluated == []


def test_no_report_of_saves_is_no_save() -> None:
    """A script that never saved has nothing to subtract."""
    assert TestEpochBoundaryStall.judge(TestEpochBoundaryStall.fires | {"checkpoint_save_s": None}).findings
