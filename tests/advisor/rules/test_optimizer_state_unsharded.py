"""optimizer-state-unsharded: each GPU keeps all states."""

from typing import Any, ClassVar

import pytest

from advisor.engine import evaluate
from advisor.features import Frames
from advisor.memory_split import with_split
from advisor.rule import load
from tests.advisor.rules.cases import RuleCases, frames


class TestOptimizerStateUnsharded(RuleCases):
    """Each GPU keeps all states."""

    rule = "optimizer-state-unsharded"
    healthy: ClassVar[dict[str, Any]] = {"sharding": "ddp", "static_share": 0.2, "alloc_peak_share": 0.7, "data_parallel": 8}
    fires: ClassVar[dict[str, Any]] = {
        "static_share": 0.6, "alloc_peak_share": 0.9, "static_bytes": 90e9, "zero1_bytes": 30e9, "zero2_bytes": 21e9, "zero3_bytes": 11.25e9,
        "params": 5.6e9, "told_trainable": 5.6e9,
    }  # fmt: skip
    silent: ClassVar[list[dict[str, Any]]] = [
        {"sharding": "zero1"},
        {"sharding": "fsdp"},
        {"data_parallel": 1},
        {"static_share": 0.3},
        {"alloc_peak_share": 0.7},
        {"told_trainable": 4e7},
        {"told_kind": "serve"},
    ]
    between: ClassVar[dict[str, Any] | None] = fires | {"static_share": 0.42, "alloc_peak_share": 0.8}
    lacks = ("sharding", "static_share", "alloc_peak_share")


def test_it_says_what_each_stage_leaves() -> None:
    """In GiB on each GPU."""
    finding = TestOptimizerStateUnsharded().found()

    assert finding.summary.english() == (
        "Weights, gradients and optimizer take 84 GiB, 60% of each card, on each of 8 ranks alike; sharded they take 27.9 GiB (ZeRO-1), 19.6"
        " (ZeRO-2) or 10.5 (ZeRO-3, FSDP)."
    )
    assert finding.severity == "advice"


@pytest.mark.parametrize(
    ("launcher", "told", "not_told"),
    [
        (None, "fully_shard(block, reshard_after_forward=False)", "DeepSpeed"),
        ("torchrun", "ZeroRedundancyOptimizer", "Megatron"),
        ("deepspeed", '{"zero_optimization": {"stage": 2, "overlap_comm": true}}', "fully_shard"),
        ("megatron", "--use-distributed-optimizer", "fully_shard"),
    ],
)
def test_the_change_is_the_launchers(launcher: str | None, told: str, not_told: str) -> None:
    """With what it leaves."""
    (finding,) = TestOptimizerStateUnsharded.judge(TestOptimizerStateUnsharded.fires | {"launcher": launcher}).findings
    said = "\n".join(change.text for change in finding.change)

    assert told in said
    assert not_told not in said
    assert "GiB a GPU" in said


def test_a_model_that_is_told_is_judged_by_its_split() -> None:
    """7.5e9 parameters on 64 cards of 192 GB: 120 GB each, as the ZeRO paper has it, and 31.4, 16.6, 1.9 after."""
    told = frames(
        params=7.5e9, dtype="bf16", sharding="ddp", gpus=64, mem_total_bytes=192e9, alloc_peak_share=0.9, alloc_peak_bytes=172e9
    )
    mine = [rule for rule in load() if rule.id == "optimizer-state-unsharded"]

    (finding,) = evaluate(mine, Frames(told.gpu, with_split(told.job), told.node)).findings

    assert (
        "take 112 GiB, 62% of each card, on each of 64 ranks alike; sharded they take 29.2 GiB (ZeRO-1), 15.5 (ZeRO-2) or 1.7"
        in (finding.summary.english())
    )
