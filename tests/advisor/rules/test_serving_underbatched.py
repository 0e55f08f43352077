"""serving-underbatched: too few sequences for each read of the weights."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases


class TestServingUnderbatched(RuleCases):
    """Too few sequences for each read of the weights."""

    rule = "serving-underbatched"
    fires: ClassVar[dict[str, Any]] = {
        "bottleneck": "memory_bandwidth",
        "share_memory_bandwidth": 0.96,
        "share_compute": 0.0,
        "dram_active": 0.74,
        "dram_active_when_busy": 0.77,
        "tensor_active": 0.03,
        "tensor_active_when_busy": 0.03,
        "fp32_active_when_busy": 0.0001,
        "mem_used_share_max": 0.1,
    }
    silent: ClassVar[list[dict[str, Any]]] = [
        {"tensor_active_when_busy": 0.24},
        {"tensor_active_when_busy": 0.0},
        {"mem_used_share_max": 0.95},
        {"dram_active_when_busy": 0.4},
    ]
    between: ClassVar[dict[str, Any] | None] = {
        "bottleneck": "memory_bandwidth",
        "share_memory_bandwidth": 0.96,
        "share_compute": 0.0,
        "dram_active": 0.74,
        "dram_active_when_busy": 0.77,
        "tensor_active": 0.03,
        "tensor_active_when_busy": 0.1,
        "fp32_active_when_busy": 0.0001,
        "mem_used_share_max": 0.1,
    }
    lacks = ("dram_active",)


LAB: dict[str, Any] = {"tensor_active_when_busy": 0.0319906, "dram_active_when_busy": 0.818003, "sequences_padded": 8.06}


@pytest.mark.parametrize(
    ("readings", "low", "high", "measured"),
    [
        (LAB | {"sequences_planned": 64}, 6.25, 59.4, 7.17),  # the lab, 8 sequences that nobody told: 1 to 8 look alike
        (LAB | {"sequences_planned": 64, "sequences_now": 8.0}, 4.8, 8.0, 7.17),
        ({"sequences_planned": 64, "sequences_now": 1.0, "sequences_padded": 8.0}, 38.4, 64.0, 58.3),
        # above a tile the roofline tells the batch within one
        ({"tensor_active_when_busy": 0.08, "sequences_padded": 20.0, "sequences_planned": 64}, 2.5, 4.81, 2.9),
        ({"sequences_planned": 64, "sequences_now": 40.0}, 1.05, 1.6, 1.4),
        # a card that the table does not have
        ({"tensor_active_when_busy": 0.03}, 6.67, 64.0, 58.3),
    ],
)
def test_it_promises_what_todays_batch_leaves(readings: dict[str, Any], low: float, high: float, measured: float) -> None:
    """In the range lies what was measured, or 0.9 of the ratio of the batches; it spans ten times at most."""
    (finding,) = TestServingUnderbatched.judge(TestServingUnderbatched.fires | readings).findings
    gain = finding.expected_gain

    assert gain is not None
    assert gain.low == pytest.approx(low, abs=0.05)
    assert gain.high == pytest.approx(high, abs=0.1)
    assert gain.low <= measured <= gain.high
    assert gain.high / gain.low <= 10
