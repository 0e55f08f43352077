"""batch-underfills-gpu: a busy engine with few SMs at work."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases


class TestBatchUnderfillsGpu(RuleCases):
    """A busy engine with few SMs at work."""

    rule = "batch-underfills-gpu"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "underfilled",
        "share_underfilled": 0.95,
        "share_compute": 0.0,
        "sm_active": 0.13,
        "sm_active_when_busy": 0.135,
        "dram_active": 0.01,
    }
    silent: ClassVar[list[dict[str, Any]]] = [{"bottleneck": "launch"}, {"share_underfilled": 0.1}, {"mem_used_share_max": 0.95}]
    between: ClassVar[dict[str, Any] | None] = {"bottleneck": "launch", "share_underfilled": 0.3}
    lacks = ("sm_active", "power_share")


@pytest.mark.parametrize(
    ("readings", "low", "high"),
    [
        ({"sm_active_when_busy": 0.164, "math_when_busy": 0.005}, 6.4, 64.0),  # the lab: 57 times at 128 times the batch
        ({"sm_active_when_busy": 0.3, "math_when_busy": 0.17}, 1.5, 5.0),
        ({"sm_active_when_busy": 0.58, "math_when_busy": 0.14}, 1.1, 6.07),
    ],
)
def test_it_promises_what_the_math_pipes_leave(readings: dict[str, float], low: float, high: float) -> None:
    """A share of active SMs bounds nothing: each of them may have one small tile."""
    (finding,) = TestBatchUnderfillsGpu.judge(TestBatchUnderfillsGpu.fires | readings).findings

    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == (low, high)
