"""What rules promise, beside what their changes gave on two H200 (docs/lab.md)."""

from typing import Any

import pytest

from tests.advisor.rules.cases import RuleCases
from tests.advisor.rules.test_batch_underfills_gpu import TestBatchUnderfillsGpu as _Batch
from tests.advisor.rules.test_checkpoint_stall import TestCheckpointStall as _Checkpoint
from tests.advisor.rules.test_gpu_co_tenant_contention import TestGpuCoTenantContention as _Tenants
from tests.advisor.rules.test_h2d_unpinned_copy import TestH2dUnpinnedCopy as _Copies
from tests.advisor.rules.test_launch_bound_small_kernels import TestLaunchBoundSmallKernels as _Launch


@pytest.mark.parametrize(
    ("case", "readings", "measured"),
    [
        (_Launch, {"share_launch": 0.798, "busy": 0.2, "share_compute": 0.2}, 6.81),
        (_Launch, {"share_launch": 0.76, "busy": 0.23, "share_compute": 0.23}, 4.18),
        (_Batch, {"sm_active_when_busy": 0.164, "math_when_busy": 0.005}, 57.34),
        (_Copies, {"share_copy": 0.802, "busy": 0.198, "copy_rate_share": 0.139}, 3.05),
        (_Tenants, {"tenants": 2, "busy": 0.92}, 2.14),
        (_Tenants, {"tenants": 2, "busy": 1.0}, 2.2),
        (_Checkpoint, {"share_checkpoint": 0.313, "busy": 0.631}, 1.70),
    ],
)
def test_what_was_measured_lies_inside_what_is_promised(case: type[RuleCases], readings: dict[str, Any], measured: float) -> None:
    """The readings are those of the programs before the change."""
    (finding,) = case.judge(case.fires | readings).findings
    gain = finding.expected_gain

    assert gain is not None
    assert gain.low <= measured <= gain.high


@pytest.mark.parametrize(
    ("case", "readings", "most"),
    [
        (_Launch, {"share_launch": 0.4}, 2.5),
        (_Copies, {"share_copy": 0.4, "copy_rate_share": 0.3}, 1.7),
        (_Checkpoint, {"share_checkpoint": 0.15}, 1.3),
        (_Tenants, {"tenants": 2}, 2.5),
    ],
)
def test_a_small_trouble_promises_a_small_gain(case: type[RuleCases], readings: dict[str, Any], most: float) -> None:
    """A range that holds any figure says nothing."""
    (finding,) = case.judge(case.fires | readings).findings
    gain = finding.expected_gain

    assert gain is not None
    assert 1.0 < gain.low < gain.high <= most
