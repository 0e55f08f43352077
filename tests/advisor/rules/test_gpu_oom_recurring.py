"""gpu-oom-recurring: a job that runs out of memory again and again."""

from typing import Any, ClassVar

import pytest

from advisor.engine import evaluate
from advisor.memory_split import with_split
from advisor.rule import load
from tests.advisor.rules.cases import RuleCases, frames

GIB = 1 << 30


class TestGpuOomRecurring(RuleCases):
    """A job that runs out of memory again and again."""

    rule = "gpu-oom-recurring"
    healthy: ClassVar[dict[str, Any]] = {"ooms_24h": 0}
    fires: ClassVar[dict[str, Any]] = {"ooms_24h": 4}
    silent: ClassVar[list[dict[str, Any]]] = [{"ooms_24h": 1}, {"tenants": 2}]
    between: ClassVar[dict[str, Any] | None] = {"ooms_24h": 1}
    lacks = ("ooms_24h",)


def changes(**readings: Any) -> list[str]:
    """What is proposed, in order."""
    (finding,) = TestGpuOomRecurring.judge(TestGpuOomRecurring.fires | readings).findings
    return [change.text for change in finding.change]


def test_without_a_model_it_says_the_usual_order() -> None:
    """Batch, BF16, the allocator, recompute; states are sharded where there are several GPUs."""
    alone, several = changes(), changes(gpus=8)

    assert [text.splitlines()[-1][:30] for text in alone] == [
        "+ loader = DataLoader(ds, batc",
        "+     loss = model(x)",
        "PYTORCH_ALLOC_CONF=expandable_",
        "+ y = torch.utils.checkpoint.c",
    ]
    assert several[:4] == alone
    assert "fully_shard(model)" in several[4]
    assert len(several) == 5


def test_states_that_fill_the_card_leave_no_batch_that_fits() -> None:
    """7e9 parameters with Adam are 104 GiB: on 75 GiB neither a smaller batch nor recompute is said."""
    told = {"static_bytes": 112e9, "unsharded_bytes": 112e9, "lean_optimizer_bytes": 70e9, "zero3_bytes": 14e9, "static_share": 1.4,
            "mem_total_bytes": 80e9, "micro_batch": 4, "sharding": "ddp", "gpus": 8, "dtype": "bf16", "planned_bytes": 120e9,
            "activation_bytes": 4e9}  # fmt: skip
    (finding,) = TestGpuOomRecurring.judge(TestGpuOomRecurring.fires | told).findings

    said = "\n".join(change.text for change in finding.change)
    assert finding.summary.english() == (
        "The job ran out of GPU memory 4 times in 24 hours: weights, gradients and optimizer alone take 104 GiB of the card's 75 GiB, so no"
        " batch fits."
    )
    assert "micro_batch" not in said
    assert "checkpoint.checkpoint" not in said
    assert "states 13.0 GiB a GPU instead of 104" in said
    assert "states 65 GiB instead of 104" in said


def test_a_model_that_is_told_is_split() -> None:
    """States and activations, and the total with full recompute, by the planner."""
    told = {"planned_bytes": 160 * GIB, "static_bytes": 60 * GIB, "activation_bytes": 90 * GIB, "mem_total_bytes": 140 * GIB,
            "static_share": 0.43, "micro_batch": 4, "full_recompute_bytes": 72 * GIB, "dtype": "bf16"}  # fmt: skip
    (finding,) = TestGpuOomRecurring.judge(TestGpuOomRecurring.fires | told).findings

    said = [change.text for change in finding.change]
    assert finding.summary.english() == (
        "The job ran out of GPU memory 4 times in 24 hours. By its model it needs 160 GiB of 140 GiB: 60 GiB of states, 90 GiB of"
        " activations."
    )
    assert said[0] == "- micro_batch = 4\n+ micro_batch = 4 // 2; accumulation *= 2  # the same global batch"
    assert not any("autocast" in text for text in said)
    assert sum("checkpoint.checkpoint" in text for text in said) == 1
    assert any("leaves 72 GiB in all" in text for text in said)


def test_logits_that_are_the_peak_need_another_loss_first() -> None:
    """A long sequence over a large vocabulary."""
    assert "never holds 25.1 GiB of logits" in changes(logits_bytes=27e9, activation_bytes=10e9)[0]
    assert not any("logits" in text for text in changes(logits_bytes=5e9, activation_bytes=10e9))


@pytest.mark.parametrize(
    ("release", "name"),
    [(209, "PYTORCH_ALLOC_CONF="), (208, "PYTORCH_CUDA_ALLOC_CONF="), (210, "PYTORCH_ALLOC_CONF=")],
)
def test_fragments_come_first_under_the_name_of_that_release(release: int, name: str) -> None:
    """Where a part of the memory is fragments; else it is one step among others."""
    fragments = changes(torch_release=release, fragmented_share=0.2)

    assert fragments[0].startswith(name)
    assert sum("ALLOC_CONF" in text for text in fragments) == 1
    assert [k for k, text in enumerate(changes(torch_release=release)) if text.startswith(name)] == [2]


def test_a_log_that_ends_with_it_is_enough() -> None:
    """At medium confidence, with restarts: one failed run is no recurrence."""
    logged = {"ooms_24h": None, "note_log_error": "cuda_oom", "restarts_2h": 2}
    (finding,) = TestGpuOomRecurring.judge(logged).findings

    assert finding.confidence == "medium"
    assert finding.summary.english() == "The job's log ends with CUDA out of memory, and it was restarted 2 times in two hours."
    assert TestGpuOomRecurring.judge(logged | {"restarts_2h": 0}).findings == []
    assert TestGpuOomRecurring.judge(logged | {"note_log_error": "bus_error"}).findings == []


def test_it_is_the_one_thing_said_of_a_full_card() -> None:
    """States, activations, fragments and a full card are its causes or its signs."""
    readings = {
        "ooms_24h": 3, "alloc_peak_share": 0.95, "mem_used_share": 0.97, "fragmented_share": 0.2, "alloc_retries_per_100_steps": 3.0,
        "params": 4e9, "dtype": "bf16", "sharding": "ddp", "gpus": 8, "held_gpus": 8, "working_gpus": 8, "told_seq": 8192, "told_hidden": 4096, "told_layers": 32,
        "micro_batch": 1, "mem_total_bytes": 120e9,
    }  # fmt: skip
    told = frames(**readings)
    split = with_split(told.job)
    alone = [rule for rule in load() if rule.id == "optimizer-state-unsharded"]

    found = evaluate(load(), type(told)(told.gpu, split, told.node)).findings

    assert [finding.rule for finding in found] == ["gpu-oom-recurring"]
    assert evaluate(alone, type(told)(told.gpu, split, told.node)).findings


def test_memory_that_grows_comes_first() -> None:
    """A leak fills any card."""
    leak = {"mem_growth_share": 0.1, "mem_growth_bytes": 1e10, "mem_growth_s": 200.0, "mem_growth_bytes_per_s": 5e7}

    found = evaluate(load(), frames(ooms_24h=3, **leak)).findings

    assert [finding.rule for finding in found] == ["gpu-memory-leak"]
