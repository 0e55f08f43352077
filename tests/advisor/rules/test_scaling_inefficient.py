"""scaling-inefficient: GPUs that are added and bring little."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestScalingInefficient(RuleCases):
    """GPUs that are added and bring little."""

    rule = "scaling-inefficient"
    healthy: ClassVar[dict[str, Any]] = {
        "gpus": 8,
        "scaling_efficiency": 0.95,
        "scaling_reference_gpus": 1.0,
        "samples_per_s": 800.0,
    }
    fires: ClassVar[dict[str, Any]] = {
        "gpus": 8,
        "scaling_efficiency": 0.6,
        "scaling_reference_gpus": 1.0,
        "samples_per_s": 480.0,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"scaling_efficiency": 0.9},
        {"gpus": 1},
        {"nodes": 2, "scaling_efficiency": 0.72},
        {"has_nvlink": False, "scaling_efficiency": 0.78},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "gpus": 8,
        "scaling_efficiency": 0.87,
        "scaling_reference_gpus": 1.0,
        "samples_per_s": 700.0,
    }
    lacks = ("scaling_efficiency",)


def test_the_gain_is_that_to_the_efficiency_that_others_reach() -> None:
    """From 0.60 to 0.92: 1.53 times at best, a fifth of the GPU-hours in the middle of the range."""
    finding = TestScalingInefficient().found()

    assert finding.expected_gain is not None
    assert finding.expected_gain.high == 1.53
    assert finding.recoverable == 0.2034
