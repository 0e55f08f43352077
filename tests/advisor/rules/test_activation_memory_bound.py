"""activation-memory-bound: activations fill the card."""

from typing import Any, ClassVar

import pytest

from advisor.engine import evaluate
from advisor.features import Frames
from advisor.memory_split import with_split
from advisor.rule import load
from tests.advisor.rules.cases import RuleCases, frames

GIB = 1 << 30


class TestActivationMemoryBound(RuleCases):
    """Activations fill the card."""

    rule = "activation-memory-bound"
    healthy: ClassVar[dict[str, Any]] = {
        "alloc_peak_share": 0.7, "alloc_peak_bytes": 98.0 * GIB, "activation_share": 0.3, "micro_batch": 8, "static_bytes": 60.0 * GIB,
        "activation_bytes": 30.0 * GIB, "logits_bytes": 4.0 * GIB, "planned_bytes": 100.0 * GIB, "mem_total_bytes": 140.0 * GIB,
        "ooms_24h": 0,
    }  # fmt: skip
    fires: ClassVar[dict[str, Any]] = {
        "alloc_peak_share": 0.95, "alloc_peak_bytes": 133.0 * GIB, "activation_share": 0.7, "micro_batch": 1, "static_bytes": 30.0 * GIB,
        "activation_bytes": 90.0 * GIB, "logits_bytes": 8.0 * GIB, "planned_bytes": 130.0 * GIB, "full_recompute_bytes": 48.0 * GIB,
    }  # fmt: skip
    silent: ClassVar[list[dict[str, Any]]] = [
        {"alloc_peak_share": 0.8},
        {"activation_share": 0.35},
        {"micro_batch": 4},
        {"logits_bytes": 95.0 * GIB},
        {"recompute": "full"},
        {"told_kind": "serve"},
    ]
    between: ClassVar[dict[str, Any] | None] = fires | {"alloc_peak_share": 0.88, "activation_share": 0.45}
    lacks = ("activation_share", "micro_batch")


def changes(**readings: Any) -> list[str]:
    """What is proposed."""
    (finding,) = TestActivationMemoryBound.judge(TestActivationMemoryBound.fires | readings).findings
    return [change.text for change in finding.change]


def test_it_says_the_split_and_what_recompute_leaves() -> None:
    """With the planner's numbers."""
    finding = TestActivationMemoryBound().found()

    assert finding.summary.english() == (
        "By its model 70% of the job's memory are activations (90 GiB; states 30 GiB) at a micro-batch of 1, and the peak is 95% of the"
        " card; with full recompute it needs 48 GiB."
    )
    assert (finding.severity, finding.confidence) == ("advice", "high")


def test_an_allocation_that_failed_is_a_full_card() -> None:
    """Whatever the peak of what was allocated."""
    assert TestActivationMemoryBound.judge(TestActivationMemoryBound.fires | {"alloc_peak_share": 0.7, "ooms_24h": 1}).findings


def test_plain_attention_is_replaced_before_anything_is_recomputed() -> None:
    """The peak exceeds the model's need by what scores take: 40 of 60 GiB."""
    plain = {"attention_bytes": 60.0 * GIB, "alloc_peak_bytes": 130.0 * GIB, "planned_bytes": 90.0 * GIB}
    (finding,) = TestActivationMemoryBound.judge(TestActivationMemoryBound.fires | plain).findings

    assert "plain attention holds up to 60 GiB of scores" in finding.summary.english()
    assert [("scaled_dot_product_attention" in change.text) for change in finding.change] == [True]


@pytest.mark.parametrize(
    ("readings", "told", "not_told"),
    [
        ({}, "checkpoint(block, x, use_reentrant=False)", "Megatron"),
        ({"launcher": "megatron"}, "--recompute-granularity selective --sequence-parallel", "gradient_checkpointing_enable"),
        ({"sharding": "fsdp"}, "apply_activation_checkpointing", "checkpoint(block, x"),
        ({"recompute": "selective"}, "checkpoint(block, x, use_reentrant=False)", "scaled_dot_product_attention"),
    ],
)
def test_the_change_is_the_frameworks(readings: dict[str, Any], told: str, not_told: str) -> None:
    """And keeps its braces."""
    said = "\n".join(changes(**readings))

    assert told in said
    assert not_told not in said
    assert "{{" not in said


def test_a_model_that_is_told_is_judged_by_its_split() -> None:
    """A 1.2e9 model at 32k tokens: 19 GB of states and 6.8 times that of activations."""
    told = frames(
        params=1.2e9, dtype="bf16", sharding="ddp", gpus=1, told_seq=32768, told_hidden=2048, told_layers=24, micro_batch=2,
        alloc_peak_share=0.96, alloc_peak_bytes=144e9,
    )  # fmt: skip
    mine = [rule for rule in load() if rule.id == "activation-memory-bound"]

    (finding,) = evaluate(mine, Frames(told.gpu, with_split(told.job), told.node)).findings

    assert "85% of the job's memory are activations (102 GiB; states 18 GiB)" in finding.summary.english()


def test_sharding_comes_before_recompute() -> None:
    """It costs no time: where both would do, the states are what is said."""
    both = TestActivationMemoryBound.fires | {"sharding": "ddp", "static_share": 0.5, "data_parallel": 8}

    found = evaluate(load(), frames(**TestActivationMemoryBound.healthy | both)).findings

    assert [finding.rule for finding in found] == ["optimizer-state-unsharded"]
