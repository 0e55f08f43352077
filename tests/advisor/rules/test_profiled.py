"""What a profile adds to rules: it confirms, some it opens, and without one nothing changes."""

from typing import Any

import pytest

from advisor.finding import Finding
from tests.advisor.rules.cases import RuleCases
from tests.advisor.rules.test_comm_not_overlapped import TestCommNotOverlapped as Communication
from tests.advisor.rules.test_dataloader_too_few_workers import TestDataloaderTooFewWorkers as Loader
from tests.advisor.rules.test_fp32_without_tensor_cores import TestFp32WithoutTensorCores as Fp32
from tests.advisor.rules.test_h2d_unpinned_copy import TestH2dUnpinnedCopy as Copies
from tests.advisor.rules.test_launch_bound_small_kernels import TestLaunchBoundSmallKernels as Launches
from tests.advisor.rules.test_low_mfu import TestLowMfu as Mfu
from tests.advisor.rules.test_scaling_inefficient import TestScalingInefficient as Scaling
from tests.advisor.rules.test_tensor_shape_misaligned import TestTensorShapeMisaligned as Shapes

SOME_FP32 = {"fp32_active_when_busy": 0.1, "tensor_active_when_busy": 0.05}
"""Below the thresholds of the counters, and no refutation either."""
SUPPORTS: list[tuple[type[RuleCases], dict[str, Any]]] = [
    (Launches, {"profile_launch_gap_share": 0.64, "profile_kernel_p50_s": 6e-6}),
    (Communication, {"profile_exposed_comm_share": 0.3}),
    (Copies, {"profile_pageable_share": 0.2}),
    (Fp32, {"profile_fp32_missed_share": 0.7}),
    (Loader, {"profile_data_wait_share": 0.5}),
    (Mfu, {"profile_idle_share": 0.5, "profile_exposed_comm_share": 0.1, "profile_top_kernel": "gemm", "profile_top_kernel_share": 0.3}),
    (Shapes, {"profile_half_missed_share": 0.4}),
    (Scaling, {"profile_exposed_comm_share": 0.3}),
]  # fmt: skip
SPEAKS_AGAINST: list[tuple[type[RuleCases], dict[str, Any]]] = [
    (Launches, {"profile_launch_gap_share": 0.64, "profile_kernel_p50_s": 200e-6}),
    (Launches, {"profile_launch_gap_share": 0.02, "profile_kernel_p50_s": 6e-6}),
    (Communication, {"profile_exposed_comm_share": 0.01}),
    (Copies, {"profile_pageable_share": 0.0}),
    (Fp32, {"profile_fp32_missed_share": 0.05}),
    (Loader, {"profile_data_wait_share": 0.0}),
    (Mfu, {"profile_idle_share": 0.05, "profile_exposed_comm_share": 0.0}),
    (Shapes, {"profile_half_missed_share": 0.0}),
    (Scaling, {"profile_exposed_comm_share": 0.02}),
]


def judged(of: type[RuleCases], readings: dict[str, Any], *, is_open: bool = False) -> Finding | None:
    """The rule's finding on these readings."""
    return next(iter(of.judge(readings, is_open=is_open).findings), None)


def shown(finding: Finding | None) -> dict[str, float | None]:
    """The evidence's profile lines."""
    assert finding is not None
    return {line.name: line.value for line in finding.evidence if line.name.startswith("profile_")}


@pytest.mark.parametrize(("of", "profile"), SUPPORTS)
def test_a_profile_that_says_the_same_makes_it_certain(of: type[RuleCases], profile: dict[str, Any]) -> None:
    """However little the telemetry could tell: its confidence is high, and its numbers stand beside the others."""
    finding = judged(of, of.fires | profile | {"confidence": "low"})
    before = judged(of, of.fires | {"confidence": "low"})

    assert before is not None
    assert before.confidence == "low"
    assert finding is not None
    assert finding.confidence == "high"
    numbers = {name: value for name, value in profile.items() if isinstance(value, float)}
    assert shown(finding) == pytest.approx(numbers)
    assert shown(before) == {}
    assert "?" not in finding.summary.english()


@pytest.mark.parametrize(("of", "profile"), SPEAKS_AGAINST)
def test_a_profile_that_does_not_changes_no_confidence(of: type[RuleCases], profile: dict[str, Any]) -> None:
    """Telemetry is of now, a profile may be of last week: the finding stays as it is, with the profile's number for people to see."""
    finding, before = judged(of, of.fires | profile), judged(of, of.fires)

    assert finding is not None
    assert before is not None
    assert finding.confidence == before.confidence
    assert finding.summary == before.summary
    assert finding.expected_gain == before.expected_gain
    assert shown(finding).keys() == profile.keys()
    limits = {line.name: line.threshold for line in finding.evidence if line.name.startswith("profile_")}
    assert None in limits.values()  # a limit that was not passed is not shown as if it had been


@pytest.mark.parametrize(
    ("of", "profile", "lacking"),
    [
        (Communication, {"profile_exposed_comm_share": 0.3}, ("tensor_active", "nvlink_share")),
        (Copies, {"profile_pageable_share": 0.3}, ("copy_rate_share",)),
        (Fp32, {"profile_fp32_missed_share": 0.5}, ("fp32_active", "fp32_active_when_busy", "tensor_active_when_busy")),
        (Shapes, {"profile_half_missed_share": 0.3, "told_vocab": 50257}, ("tensor_active_when_busy",)),
    ],
)
def test_a_profile_opens_what_closed_counters_cannot(
    of: type[RuleCases], profile: dict[str, Any], lacking: tuple[str, ...]
) -> None:
    """In a container without the driver's counters the rule is not evaluated; with a profile it is, in words that it can fill."""
    blind = {"working_gpus": 2} | dict.fromkeys(lacking)
    finding = judged(of, blind | profile)

    assert of.judge(blind).not_evaluated
    assert finding is not None
    assert finding.confidence == "high"
    assert "profile" in finding.summary.english()
    assert "?" not in finding.summary.english()
    assert finding.recoverable >= 0


@pytest.mark.parametrize(
    ("of", "name", "opens", "between", "clears"),
    [
        (Communication, "profile_exposed_comm_share", 0.11, 0.08, 0.05),
        (Copies, "profile_pageable_share", 0.11, 0.08, 0.05),
        (Fp32, "profile_fp32_missed_share", 0.31, 0.25, 0.19),
        (Shapes, "profile_half_missed_share", 0.11, 0.07, 0.04),
    ],
)
def test_what_a_profile_opened_has_two_thresholds(
    of: type[RuleCases], name: str, opens: float, between: float, clears: float
) -> None:
    """Between them nothing opens and what is open stays; below the lower one it closes, with counters and without."""
    base = {"working_gpus": 2} | ({"told_vocab": 50257} if of is Shapes else {}) | (SOME_FP32 if of is Fp32 else {})
    for blind in ({}, dict.fromkeys(of.lacks) | ({"dtype": "bf16"} if of is Shapes else {})):
        here = base | blind
        assert judged(of, here | {name: opens}) is not None
        assert judged(of, here | {name: between}) is None
        assert judged(of, here | {name: between}, is_open=True) is not None
        assert judged(of, here | {name: clears}, is_open=True) is None


def test_launches_and_loaders_are_not_opened_by_a_profile_alone() -> None:
    """A profiler slows launches itself, and of free cores it knows nothing."""
    assert judged(Launches, {"profile_launch_gap_share": 0.9, "profile_kernel_p50_s": 3e-6}) is None
    assert judged(Loader, {"profile_data_wait_share": 0.9}) is None


def test_the_gain_follows_from_the_part_that_the_profile_saw() -> None:
    """Half of the kernels' time in FP32: TF32 at 3.4 times makes 1.55 of it, bf16 at 8 times 1.78 (Amdahl); the whole makes 3.4 and 8."""
    for share, low, high in ((0.5, 1.55, 1.78), (1.0, 3.4, 8.0)):
        finding = judged(Fp32, SOME_FP32 | {"busy": 1.0, "profile_fp32_missed_share": share})
        assert finding is not None
        assert finding.expected_gain is not None
        assert (finding.expected_gain.low, finding.expected_gain.high) == pytest.approx((low, high), abs=0.01)


def test_the_gain_is_that_of_the_time_in_which_the_gpu_works() -> None:
    """Kernels that take a fifth of the time cannot make a job more than 1.2 times as fast."""
    finding = judged(Fp32, SOME_FP32 | {"busy": 0.2, "profile_fp32_missed_share": 1.0})

    assert finding is not None
    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == pytest.approx((1.16, 1.21), abs=0.01)


@pytest.mark.parametrize(
    ("of", "readings"),
    [
        (Fp32, {"profile_fp32_missed_share": 0.9}),  # tensor cores at work most of the time
        (Fp32, SOME_FP32 | {"busy": 0.05, "profile_fp32_missed_share": 0.9}),
        (Copies, {"share_idle": 0.9, "share_compute": 0.1, "profile_pageable_share": 0.9}),
        (Copies, {"pcie_rx_bytes_per_s": 1e6, "pcie_tx_bytes_per_s": 1e6, "profile_pageable_share": 0.9}),
    ],
)
def test_a_profile_opens_nothing_that_the_counters_of_the_whole_job_refute(of: type[RuleCases], readings: dict[str, Any]) -> None:
    """It saw a few steps, and perhaps another program."""
    assert judged(of, readings) is None


def test_a_low_mfu_with_a_profile_says_where_the_time_goes() -> None:
    """In place of the advice to take a profile."""
    profile = dict(SUPPORTS[5][1])
    finding, before = judged(Mfu, Mfu.fires | profile), judged(Mfu, Mfu.fires)

    assert finding is not None
    assert before is not None
    assert "idle 50% of the time" in finding.summary.english()
    assert "30% of the kernels' time went to gemm." in finding.summary.english()
    assert any("profiler" in step.text for step in before.change)
    assert not any("profile" in step.text for step in finding.change)
