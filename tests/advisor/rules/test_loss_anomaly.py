"""loss-anomaly: a loss that behaves abnormally."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestLossAnomaly(RuleCases):
    """A loss that behaves abnormally."""

    rule = "loss-anomaly"
    healthy: ClassVar[dict[str, Any]] = {
        "loss": 2.1,
        "loss_not_finite_new": 0.0,
        "steps": 600.0,
        "steps_total": 9000.0,
        "loss_still_steps": 0.0,
        "loss_jump_mads": 0.5,
    }
    fires: ClassVar[dict[str, Any]] = {"loss": 2.1, "loss_not_finite_new": 12.0, "steps": 600.0, "steps_total": 9000.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"loss_not_finite_new": 0.0},
        {"steps_total": 50.0},
        {"dtype": "fp16"},
        {"told_kind": "eval"},
    ]
    lacks = ("loss_not_finite_new", "grad_norm_spikes")


def test_each_kind_is_said_in_its_own_words() -> None:
    """Standing still and jumping are warnings; what is not a number and what explodes is critical."""
    fine = TestLossAnomaly.healthy
    still = TestLossAnomaly.judge(fine | {"loss_still_steps": 800.0}).findings[0]
    jump = TestLossAnomaly.judge(fine | {"loss_jump_mads": 40.0}).findings[0]
    spikes = TestLossAnomaly.judge(fine | {"grad_norm_spikes": 30.0}).findings[0]

    assert [one.severity for one in (still, jump, spikes, TestLossAnomaly().found())] == ["warn", "warn", "critical", "critical"]
    assert "for 800 steps" in still.summary.english()
    assert "40 times its usual spread" in jump.summary.english()
    assert "30 of the last 600 steps" in spikes.summary.english()
