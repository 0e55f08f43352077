"""The memory of a training by what its script says: the planner's numbers, and nothing where too little is known."""

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.memory_split import SPLIT, with_split
from advisor.planners.training_memory import activation_bytes, logits_bytes, static_bytes, training_memory

GB = 1e9
CLOSE = 0.005
LLAMA: dict[str, Any] = {
    "params": 8.03e9, "told_hidden": 4096, "told_layers": 32, "told_heads": 32, "told_vocab": 128256, "told_seq": 8192,
    "micro_batch": 1, "dtype": "bf16", "sharding": "ddp", "gpus": 8, "ranks_on_node": 8, "mem_total_bytes": 150e9,
}  # fmt: skip


def split(**told: Any) -> dict[str, float | None]:
    """The split of one job."""
    return with_split(pl.DataFrame([{"job": "training"} | told])).row(0, named=True)


def planner_scheme(sharding: str) -> str:
    """The planner's word."""
    return {"none": "ddp", "fsdp": "zero3", "hsdp": "zero3"}.get(sharding, sharding)


@pytest.mark.parametrize(("column", "gb"), [("unsharded_bytes", 120.0), ("zero1_bytes", 31.41), ("zero2_bytes", 16.64), ("zero3_bytes", 1.875)])  # fmt: skip
def test_sharding_over_64_ranks_takes_what_the_zero_paper_says(column: str, gb: float) -> None:
    """7.5e9 parameters with 16 bytes each; what the job does not do is computed beside what it does."""
    assert split(params=7.5e9, dtype="bf16", sharding="ddp", gpus=64)[column] == pytest.approx(gb * GB, rel=CLOSE)


def test_a_tensor_parallel_slice_is_split_before_it_is_sharded() -> None:
    """70.6e9 over TP 8, ZeRO-1 over the 8 data-parallel ranks of 64 GPUs."""
    told = split(params=70.6e9, dtype="bf16", sharding="zero1", gpus=64, tp=8)

    assert told["data_parallel"] == 8
    assert told["static_bytes"] == pytest.approx(48.54 * GB, rel=CLOSE)


def test_adapters_leave_the_base_without_states() -> None:
    """40e6 trained of 7.04e9, as the planner's LoRA."""
    assert split(params=7.04e9, told_trainable=40e6, dtype="bf16", gpus=1)["static_bytes"] == pytest.approx(14.64 * GB, rel=CLOSE)


def test_activations_and_logits_of_the_8b_shape() -> None:
    """Sequence 8192 with fused attention 36.51 GB, with full recompute 2.147 GB; attention by itself would take 5*a*s*s*b*L more."""
    told, full = split(**LLAMA), split(**LLAMA | {"recompute": "full"})

    assert told["activation_bytes"] == pytest.approx(36.51 * GB, rel=CLOSE)
    assert full["activation_bytes"] == pytest.approx(2.147 * GB, rel=CLOSE)
    assert told["logits_bytes"] == pytest.approx(1.5 * 4.203 * GB, rel=CLOSE)
    assert told["attention_bytes"] == pytest.approx(5 * 32 * 8192**2 * 32)
    assert full["attention_bytes"] is None
    assert told["activation_share"] == pytest.approx(36.51 / (36.51 + 128.48 + 6.304), rel=CLOSE)


@settings(deadline=None, max_examples=25)
@given(
    st.floats(1e8, 1e12), st.sampled_from(["none", "ddp", "zero1", "zero2", "zero3", "fsdp"]), st.sampled_from([1, 2, 8, 64, 1024]),
    st.sampled_from([1, 2, 8]), st.sampled_from([1, 4]), st.sampled_from(["selective", "full"]), st.booleans(), st.integers(1, 8),
)  # fmt: skip
def test_it_agrees_with_the_planner(
    params: float, sharding: str, ranks: int, tensor: int, pipeline: int, recompute: str, sequence_parallel: bool, batch: int
) -> None:
    """Part by part and in total, whatever the parallelism; and after each change that is computed beside it."""

    def planned(
        static_scheme: str = sharding, recompute: str = recompute, batch: int = batch, recipe: str = "mixed-adam"
    ) -> float:
        return training_memory(
            params, recipe, scheme=planner_scheme(static_scheme), data_parallel=ranks, tensor_parallel=tensor, pipeline_parallel=pipeline,
            sequence_parallel=sequence_parallel, sequence=4096, micro_batch=batch, hidden=8192, layers=80, recompute=recompute,
            vocabulary=128256,
        ).total_bytes  # fmt: skip

    told = split(
        params=params, dtype="bf16", sharding=sharding, gpus=ranks * tensor * pipeline, tp=tensor, pp=pipeline, recompute=recompute,
        told_seq=4096, micro_batch=batch, told_hidden=8192, told_layers=80, told_vocab=128256, flag_sequence_parallel=sequence_parallel,
    )  # fmt: skip

    assert told["static_bytes"] == pytest.approx(
        static_bytes(params / tensor / pipeline, "mixed-adam", planner_scheme(sharding), ranks)
    )
    assert told["activation_bytes"] == pytest.approx(
        activation_bytes(4096, batch, 8192, 80, None, recompute, tensor, sequence_parallel, pipeline)
    )
    assert told["logits_bytes"] == pytest.approx(logits_bytes(4096, batch, 128256, tensor))
    assert told["planned_bytes"] == pytest.approx(planned())
    assert told["double_batch_bytes"] == pytest.approx(planned(batch=2 * batch))
    assert told["selective_recompute_bytes"] == pytest.approx(planned(recompute="selective"))
    assert told["full_recompute_bytes"] == pytest.approx(planned(recompute="full"))
    assert told["zero2_planned_bytes"] == pytest.approx(planned("zero2"))
    assert told["zero3_planned_bytes"] == pytest.approx(planned("zero3"))
    assert told["lean_planned_bytes"] == pytest.approx(planned("ddp", recipe="mixed-adam-8bit"))


def test_fp32_takes_its_own_recipe_and_twice_the_activations() -> None:
    """4 + 4 + 8 bytes a parameter; ZeRO-1 shards the last 8 alone; lean: 8-bit states instead of 8 bytes."""
    told = split(**LLAMA | {"dtype": "fp32"})

    assert told["static_bytes"] == pytest.approx(16 * 8.03e9)
    assert told["zero1_bytes"] == pytest.approx(static_bytes(8.03e9, "fp32-adam", "zero1", 8))
    assert told["lean_optimizer_bytes"] == pytest.approx(10 * 8.03e9)
    assert told["activation_bytes"] == pytest.approx(2 * 36.51 * GB, rel=CLOSE)


def test_hsdp_shards_inside_the_node() -> None:
    """Over 8 ranks of a node, not over the 64 of the job."""
    assert split(params=8e9, dtype="bf16", sharding="hsdp", gpus=64, ranks_on_node=8)["static_bytes"] == pytest.approx(16e9)


def test_interleaved_pipelines_hold_a_little_more() -> None:
    """As the planner: (p-1)/(p*v) more."""
    told = split(**LLAMA | {"gpus": 8, "pp": 4, "told_vpp": 2})

    assert told["activation_bytes"] == pytest.approx(activation_bytes(8192, 1, 4096, 32, pipeline_parallel=4, virtual_stages=2))


@pytest.mark.parametrize("absent", ["params", "dtype", "sharding"])
def test_without_what_states_depend_on_there_is_no_split(absent: str) -> None:
    """Absent is not zero."""
    told = split(**{name: value for name, value in LLAMA.items() if name != absent})

    assert told["static_bytes"] is None
    assert told["planned_bytes"] is None


@pytest.mark.parametrize("absent", ["told_hidden", "told_layers", "told_seq", "micro_batch"])
def test_without_the_shape_there_are_states_and_no_activations(absent: str) -> None:
    """The states are still right."""
    told = split(**LLAMA | {absent: None})

    assert told["static_bytes"] == pytest.approx(16 * 8.03e9)
    assert told["activation_bytes"] is told["activation_share"] is told["planned_bytes"] is None


def test_one_gpu_shards_over_nothing() -> None:
    """Whatever the script says, or does not."""
    alone = {"params": 1e9, "dtype": "bf16", "gpus": 1}

    assert split(**alone)["static_bytes"] == split(**alone, sharding="zero3")["static_bytes"] == pytest.approx(16e9)


def test_a_peak_below_the_states_refutes_the_recipe() -> None:
    """1e9 parameters at a peak of 9 GB train without Adam's 16 bytes: the split would be another job's."""
    told = split(params=1e9, dtype="bf16", gpus=1, alloc_peak_bytes=9e9)

    assert [told[name] for name in SPLIT] == [None] * len(SPLIT)
    assert split(params=1e9, dtype="bf16", gpus=1, alloc_peak_bytes=17e9)["static_bytes"] == pytest.approx(16e9)


def test_a_fleet_whose_scripts_say_nothing_has_no_split() -> None:
    """Nor does it lose a column or a row."""
    job = pl.DataFrame({"job": ["a", "b"], "gpus": [1, 8], "mem_total_bytes": [150e9, 150e9]})

    told = with_split(job)

    assert told.columns == [*job.columns, *SPLIT]
    assert told.select(pl.col(SPLIT).exclude("data_parallel").is_null().all()).row(0) == (True,) * (len(SPLIT) - 1)
    assert with_split(job.clear()).columns == told.columns
