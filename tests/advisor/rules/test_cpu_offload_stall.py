"""cpu-offload-stall: the GPU waits for states in host memory."""

from typing import Any, ClassVar

import pytest

from advisor.engine import evaluate
from advisor.rule import load
from tests.advisor.rules.cases import RuleCases, frames

GIB = 1 << 30
ROOM: dict[str, Any] = {"mem_total_bytes": 140.0 * GIB, "data_parallel": 8}
TOO_LARGE: dict[str, Any] = ROOM | {
    "planned_bytes": 400.0 * GIB,
    "zero3_planned_bytes": 200.0 * GIB,
    "lean_planned_bytes": 300.0 * GIB,
}


class TestCpuOffloadStall(RuleCases):
    """The GPU waits for states in host memory."""

    rule = "cpu-offload-stall"
    healthy: ClassVar[dict[str, Any]] = {"offload": True}
    fires: ClassVar[dict[str, Any]] = {"sm_active": 0.25, "busy": 0.4, "copy_rate_share": 0.7}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"offload": False},
        {"sm_active": 0.6},
        {"copy_rate_share": 0.2},
        {"serves": True},
        {"serving_engine": "vllm"},
        {"told_kind": "serve"},
        {"run_s": 300.0},
        {"steps_total": 20},
        TOO_LARGE,
    ]
    between: ClassVar[dict[str, Any] | None] = {"sm_active": 0.6, "copy_rate_share": 0.7}
    lacks = ("offload",)


def said(**readings: Any) -> tuple[str, str]:
    """The summary and the changes."""
    (finding,) = TestCpuOffloadStall.judge(TestCpuOffloadStall.fires | readings).findings
    return finding.summary.english(), "\n".join(change.text for change in finding.change)


def test_it_says_what_the_link_carries() -> None:
    """A quarter of the SMs' time is used: 1 / 0.25 at most."""
    finding = TestCpuOffloadStall().found()

    assert finding.summary.english() == (
        "The job offloads to host memory and the SMs are active 25% of the time; while the GPU waits PCIe runs at 70% of the link."
    )
    assert (finding.severity, finding.confidence, finding.recoverable) == ("warn", "medium", 0.5615)  # 1 - 1 / sqrt(1.3 * 4)
    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == (1.3, 4.0)


@pytest.mark.parametrize(
    "busy", [{"cpu_busy_share": 0.9, "cpu_busy_cores": 29.0}, {"cpu_cores_total_used": 24.0, "cpu_busy_cores": 29.0}]
)
def test_an_optimizer_on_the_cpu_is_a_stall_too(busy: dict[str, float]) -> None:
    """Little on the link, the cores full."""
    summary, _ = said(copy_rate_share=0.1, **busy)

    assert summary.endswith("meanwhile 29 CPU cores work.")


@pytest.mark.parametrize(
    ("readings", "told", "not_told"),
    [
        (
            ROOM | {"planned_bytes": 100.0 * GIB, "launcher": "deepspeed"},
            '-   "offload_optimizer": {"device": "cpu"},',
            "zenflow",
        ),
        (ROOM | {"planned_bytes": 100.0 * GIB}, "+ fully_shard(model)", "8-bit"),
        (
            ROOM | {"planned_bytes": 400.0 * GIB, "zero3_planned_bytes": 60.0 * GIB, "lean_planned_bytes": 300.0 * GIB},
            "shard over all 8 ranks (ZeRO-3, FSDP): 60 GiB a GPU",
            "AdamW8bit",
        ),
        (
            ROOM | {"planned_bytes": 150.0 * GIB, "zero3_planned_bytes": 150.0 * GIB, "lean_planned_bytes": 90.0 * GIB},
            "AdamW8bit(params)  # 90 GiB a GPU",
            "shard over all",
        ),
        (TOO_LARGE | {"launcher": "deepspeed"}, '"zenflow": {"topk_ratio": 0.05', '-   "offload_optimizer"'),
        ({}, "+ fully_shard(model)  # with 8-bit Adam where it does not fit", "zenflow"),
    ],
)
def test_the_change_is_what_fits(readings: dict[str, Any], told: str, not_told: str) -> None:
    """No offload, sharding, lighter states, or a faster offload; by the planner."""
    _, changes = said(**readings)

    assert told in changes
    assert not_told not in changes
    assert "numactl" in changes


def test_what_fits_without_offload_is_said_with_its_size() -> None:
    """100 of 140 GiB."""
    summary, _ = said(**ROOM, planned_bytes=100.0 * GIB)

    assert summary.endswith("though by its model it needs 100 GiB of the card's 140 GiB without offload.")


def test_neither_pinned_copies_nor_workers_are_the_advice_then() -> None:
    """Copies and waiting are the offload's."""
    copies = {
        "share_copy": 0.6,
        "share_data": 0.4,
        "share_compute": 0.2,
        "bottleneck": "copy",
        "pcie_share": 0.4,
        "pcie_rx_bytes_per_s": 2e10,
    }

    found = evaluate(load(), frames(**TestCpuOffloadStall.healthy | TestCpuOffloadStall.fires | copies)).findings

    assert [finding.rule for finding in found] == ["cpu-offload-stall"]
