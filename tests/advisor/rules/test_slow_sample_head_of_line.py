"""slow-sample-head-of-line: a few slow samples hold up whole batches."""

from typing import Any, ClassVar

import pytest

from advisor.engine import evaluate
from advisor.rule import load
from tests.advisor.rules.cases import RuleCases, frames


class TestSlowSampleHeadOfLine(RuleCases):
    """A few slow samples hold up whole batches."""

    rule = "slow-sample-head-of-line"
    healthy: ClassVar[dict[str, Any]] = {
        "step_time_p99_ratio": 1.2, "step_time_s": 0.4, "data_wait_share": 0.01, "slow_worker_ratio": 1.1, "worker_cores": 0.25,
        "steps": 700, "steps_total": 9000, "run_s": 3600.0,
    }  # fmt: skip
    fires: ClassVar[dict[str, Any]] = {
        "step_time_p99_ratio": 5.0,
        "data_wait_share": 0.3,
        "slow_worker_ratio": 3.0,
        "worker_cores": 0.3,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"step_time_p99_ratio": 1.9},
        {"data_wait_share": 0.04},
        {"slow_worker_ratio": 1.2},
        {"worker_cores": 0.9},
        {"steps_total": 40},
        {"run_s": 300.0},
        {"told_phase": "eval"},
        {"note_phase": "checkpoint"},
        {"io_delay_share": 0.3},
        {"psi_cpu_some_pct": 40.0},
        {"since_checkpoint_s": 100.0, "steps": 60},
    ]
    between: ClassVar[dict[str, Any] | None] = fires | {
        "step_time_p99_ratio": 2.5,
        "data_wait_share": 0.07,
        "slow_worker_ratio": 1.7,
    }
    lacks = ("step_time_p99_ratio", "data_wait_share", "slow_worker_ratio", "worker_cores")


def test_it_says_the_tail_and_what_it_costs() -> None:
    """1 / (1 - 0.3) is the most that can be won."""
    finding = TestSlowSampleHeadOfLine().found()

    assert finding.summary.english() == (
        "One step in a hundred takes 5.0 times the median and 30% of the time is spent waiting for a batch, yet workers use 0.30 cores each"
        " and the busiest 3.0 times the others' median."
    )
    assert finding.severity == "advice"
    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == (1.05, 1.43)


def test_a_checkpoint_among_many_steps_is_no_tail() -> None:
    """One save in 700 steps is not their p99, so the finding stands."""
    assert TestSlowSampleHeadOfLine.judge(TestSlowSampleHeadOfLine.fires | {"since_checkpoint_s": 100.0}).findings


@pytest.mark.parametrize(("release", "in_order"), [(209, True), (205, False), (None, True)])
def test_it_names_in_order_where_pytorch_has_it(release: int | None, in_order: bool) -> None:
    """An older DataLoader refuses the word."""
    (finding,) = TestSlowSampleHeadOfLine.judge(TestSlowSampleHeadOfLine.fires | {"torch_release": release}).findings

    assert any("in_order=False" in change.text for change in finding.change) is in_order
    assert sum("prefetch_factor=8" in change.text for change in finding.change) == 1


def test_more_workers_are_no_advice_then() -> None:
    """They wait already."""
    readings = (
        TestSlowSampleHeadOfLine.healthy | TestSlowSampleHeadOfLine.fires | {"share_data": 0.5, "share_compute": 0.5, "busy": 0.5}
    )

    found = evaluate(load(), frames(**readings)).findings

    assert [finding.rule for finding in found if finding.bottleneck == "data"] == ["slow-sample-head-of-line"]
