"""fp16-overflow-nan: losses that are no number, scales that keep falling."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases


class TestFp16OverflowNan(RuleCases):
    """Losses that are no number, scales that keep falling."""

    rule = "fp16-overflow-nan"
    healthy: ClassVar[dict[str, Any]] = {
        "dtype": "fp16", "loss_not_finite_new": 0, "loss_scale": 65536.0, "loss_scale_halvings": 0, "steps": 600, "steps_total": 9000,
    }  # fmt: skip
    fires: ClassVar[dict[str, Any]] = {"loss_not_finite_new": 3}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"loss_not_finite_new": 0},
        {"steps_total": 150},
        {"dtype": "bf16"},
        {"dtype": "fp32"},
        {"dtype": None, "loss_scale": None},  # what is not known to be FP16 is loss-anomaly's
    ]
    between: ClassVar[dict[str, Any] | None] = {"loss_scale_halvings": 3, "loss_scale": 2.0}
    lacks = ("loss_not_finite_new", "loss_scale")


def changes(**readings: Any) -> list[str]:
    """What is proposed."""
    (finding,) = TestFp16OverflowNan.judge(TestFp16OverflowNan.fires | readings).findings
    return [change.text for change in finding.change]


def test_it_says_how_many_steps_are_lost() -> None:
    """Three of 600, and the scale beside them; half a percent of the steps is all that comes back."""
    finding = TestFp16OverflowNan().found()

    assert finding.severity == "critical"
    assert finding.summary.english() == (
        "In 3 of 600 steps the loss was NaN or infinite; the loss scale stands at 65536: values exceed what FP16 can hold (65,504)."
    )
    assert finding.recoverable == 0.005
    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == (1.0, 1.01)


def test_a_scale_that_keeps_falling_is_overflow_too() -> None:
    """Five halvings in fewer than 1,000 steps; in 5,000 steps five are nothing, and twenty-five are as many."""
    falling = {"loss_scale_halvings": 5, "loss_scale": 2048.0}

    (finding,) = TestFp16OverflowNan.judge(falling).findings
    assert finding.summary.english() == (
        "The loss scale was halved 5 times in 600 steps and stands at 2048: gradients overflow FP16, and each time a step is thrown away."
    )
    assert TestFp16OverflowNan.judge(falling | {"steps": 5000}).findings == []
    assert TestFp16OverflowNan.judge(falling | {"steps": 5000, "loss_scale_halvings": 25}).findings


def test_a_scale_below_one_is_the_end_of_it() -> None:
    """Gradients vanish instead."""
    assert TestFp16OverflowNan.judge({"loss_scale": 0.5}).findings
    assert TestFp16OverflowNan.judge({"loss_scale": 1.0}).findings == []


def test_a_scaler_or_a_scale_says_that_it_is_fp16() -> None:
    """Where the script did not."""
    assert TestFp16OverflowNan.judge({"dtype": None, "loss_not_finite_new": 1}).findings
    assert TestFp16OverflowNan.judge({"dtype": None, "loss_scale": None, "told_scaler": True, "loss_not_finite_new": 1}).findings


@pytest.mark.parametrize(
    ("readings", "told", "not_told"),
    [
        ({}, "dtype=torch.bfloat16", "init_scale"),
        ({"sm": 70}, "init_scale=2.0**12", "bfloat16"),
        ({"sm": None}, "init_scale=2.0**12", "bfloat16"),
        ({"launcher": "deepspeed"}, '{"fp16": {"enabled": false}, "bf16": {"enabled": true}}', "torch.bfloat16"),
        ({"launcher": "megatron"}, "--bf16  # Megatron-LM", "torch.bfloat16"),
        ({"launcher": "torchrun"}, "dtype=torch.bfloat16", "Megatron"),
    ],
)
def test_the_change_is_the_cards_and_the_launchers(readings: dict[str, Any], told: str, not_told: str) -> None:
    """BF16 from Ampere on; before, a lower scale. Clipping and the layer in FP32 are for all."""
    said = changes(**readings)

    assert any(told in text for text in said)
    assert not any(not_told in text for text in said)
    assert any("clip_grad_norm_" in text for text in said)
    assert any("enabled=False" in text for text in said)


def test_a_scale_of_one_is_that_of_a_scaler_that_is_switched_off() -> None:
    """A NaN beside it is no overflow of FP16: an overflow would have halved it."""
    off = {
        "dtype": None,
        "told_scaler": None,
        "loss_scale": 1.0,
        "loss_scale_halvings": 0.0,
        "loss_not_finite_new": 3.0,
        "steps": 650.0,
        "steps_total": 900.0,
    }

    assert TestFp16OverflowNan.judge(off).findings == []
    assert len(TestFp16OverflowNan.judge(off | {"loss_scale": 1024.0}).findings) == 1
