"""Training memory: the published worked examples, and what cannot be."""

from itertools import pairwise
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.planners.training_memory import (
    CONTEXT_BYTES,
    NCCL_BYTES,
    RECIPES,
    SCHEMES,
    activation_bytes,
    logits_bytes,
    static_bytes,
    training_memory,
)

GB = 1e9
SHAPE: dict[str, Any] = {"sequence": 512, "hidden": 1024, "layers": 8}
CLOSE = 0.005


@pytest.mark.parametrize(("scheme", "gb"), [("ddp", 120.0), ("zero1", 31.41), ("zero2", 16.64), ("zero3", 1.875)])
def test_sharding_over_64_ranks_takes_what_the_zero_paper_says(scheme: str, gb: float) -> None:
    """7.5e9 parameters with 16 bytes each."""
    assert static_bytes(7.5e9, "mixed-adam", scheme, 64) == pytest.approx(gb * GB, rel=CLOSE)


def test_a_7b_model_with_adam_fits_neither_24_nor_80_gb() -> None:
    """112 GB are 104.3 GiB before any activation."""
    static = static_bytes(7e9)

    assert static == pytest.approx(112.0 * GB, rel=CLOSE)
    assert static / 2**30 == pytest.approx(104.3, rel=CLOSE)
    assert training_memory(7e9, memory_bytes=24e9).fits is False
    assert training_memory(7e9, memory_bytes=80e9).fits is False
    whole = training_memory(7e9, sequence=512, hidden=4096, layers=32, fused_cross_entropy=True, memory_bytes=141e9)
    assert (whole.fits, whole.not_counted) == (True, ())


@pytest.mark.parametrize(
    ("given_too", "missing"),
    [
        ({}, ["Activations: give sequence, hidden and layers.", "Logits: give vocabulary, or fused_cross_entropy."]),
        (SHAPE, ["Logits: give vocabulary, or fused_cross_entropy."]),
        ({"fused_cross_entropy": True}, ["Activations: give sequence, hidden and layers."]),
        (SHAPE | {"vocabulary": 1000, "scheme": "zero3", "data_parallel": 8}, ["What ZeRO-3 gathers: give largest_block_parameters."]),
        (SHAPE | {"vocabulary": 1000, "recipe": "qlora"}, ["The frozen base: give frozen_parameters."]),
        (SHAPE | {"vocabulary": 1000, "recipe": "qlora", "frozen_parameters": 1e9}, []),
        (SHAPE | {"vocabulary": 1000}, []),
    ],
)  # fmt: skip
def test_what_is_not_given_is_not_counted_and_leaves_the_fit_open(given_too: dict[str, Any], missing: list[str]) -> None:
    """Absent is not zero: the total is then the least, and only one that is too much already says that it does not fit."""
    told = training_memory(1e9, memory_bytes=150e9, **given_too)
    too_much = training_memory(1e9, memory_bytes=1e9, **given_too)

    assert [text.english() for text in told.not_counted] == missing
    assert told.fits is (None if missing else True)
    assert (too_much.fits, too_much.not_counted) == (False, told.not_counted)
    assert (told.activation_bytes is None) == ("sequence" not in given_too)


@pytest.mark.parametrize(("recipe", "gb"), [("mixed-adam-8bit", 70.0), ("bf16-adam", 56.0)])
def test_lighter_optimizers_take_less(recipe: str, gb: float) -> None:
    """For 7e9 parameters."""
    assert static_bytes(7e9, recipe) == pytest.approx(gb * GB, rel=CLOSE)


@pytest.mark.parametrize(
    ("recipe", "a_parameter"),
    [("fp32-adam", 16), ("mixed-adam", 16), ("mixed-adam-fp32-gradients", 18), ("autocast-adam", 16), ("mixed-adam-8bit", 10),
     ("bf16-adam", 8), ("fp32-sgd-momentum", 12)],
)  # fmt: skip
def test_each_recipe_has_its_bytes_a_parameter(recipe: str, a_parameter: float) -> None:
    """Weights, gradients and optimizer together."""
    assert sum(RECIPES[recipe]) == a_parameter


@pytest.mark.parametrize(("recipe", "gb"), [("lora", 14.64), ("qlora", 4.49)])
def test_adapters_train_on_a_frozen_base(recipe: str, gb: float) -> None:
    """40e6 trained parameters on 7e9 frozen ones."""
    assert static_bytes(40e6, recipe, frozen_parameters=7e9) == pytest.approx(gb * GB, rel=CLOSE)


def test_a_70b_model_is_sharded_over_64_ranks_and_over_tensor_parallel() -> None:
    """ZeRO-3 over 64; tensor parallel 8 with ZeRO-1 over 8."""
    sharded = training_memory(70.6e9, scheme="zero3", data_parallel=64)
    split = training_memory(70.6e9, scheme="zero1", data_parallel=8, tensor_parallel=8)

    assert sharded.static_bytes == pytest.approx(17.65 * GB, rel=CLOSE)
    assert split.static_bytes == pytest.approx(48.54 * GB, rel=CLOSE)


@pytest.mark.parametrize(
    ("recompute", "tensor", "sequence_parallel", "gb"),
    [("none", 1, False, 275.4), ("none", 8, False, 55.57), ("none", 8, True, 34.43), ("selective", 8, True, 10.27), ("full", 8, False, 4.83)],
)  # fmt: skip
def test_activations_of_the_175b_shape(recompute: str, tensor: int, sequence_parallel: bool, gb: float) -> None:
    """Sequence 2048, hidden 12288, 96 heads and layers."""
    told = activation_bytes(2048, 1, 12288, 96, 96, recompute, tensor, sequence_parallel)

    assert told == pytest.approx(gb * GB, rel=CLOSE)


@pytest.mark.parametrize(("recompute", "gb"), [("selective", 36.51), ("full", 2.147)])
def test_activations_of_the_8b_shape(recompute: str, gb: float) -> None:
    """Sequence 8192 with flash attention, and with full recompute."""
    assert activation_bytes(8192, 1, 4096, 32, recompute=recompute) == pytest.approx(gb * GB, rel=CLOSE)


def test_logits_of_a_large_vocabulary() -> None:
    """FP32 alone are 4 bytes a value, with the gradient 6, and none where the loss is fused."""
    assert logits_bytes(8192, 1, 128256, gradient=False) == pytest.approx(4.203 * GB, rel=CLOSE)
    assert logits_bytes(8192, 1, 128256) == pytest.approx(1.5 * 4.203 * GB, rel=CLOSE)
    assert logits_bytes(8192, 1, 128256, fused=True) == 0


def test_the_parts_make_the_total() -> None:
    """With a context, NCCL where there are several ranks, and 5 % for fragments."""
    told = training_memory(8e9, scheme="zero3", data_parallel=8, sequence=4096, hidden=4096, layers=32, vocabulary=128256)
    assert told.activation_bytes is not None
    assert told.logits_bytes is not None
    counted = told.static_bytes + told.activation_bytes + told.logits_bytes

    assert told.buffers_bytes == pytest.approx(CONTEXT_BYTES + NCCL_BYTES + 0.05 * counted)
    assert told.total_bytes == pytest.approx(counted + told.buffers_bytes)
    assert training_memory(8e9).buffers_bytes == pytest.approx(CONTEXT_BYTES + 0.05 * 128e9)
    assert (told.fits, told.memory_used_ratio) == (None, None)


def test_zero3_gathers_the_largest_block_twice() -> None:
    """In 16 bits."""
    assert static_bytes(8e9, scheme="zero3", data_parallel=8, largest_block_parameters=2e8) == pytest.approx(16e9 + 0.8e9)


def test_interleaved_pipelines_hold_a_little_more() -> None:
    """(p-1)/(p*v) more."""
    plain = activation_bytes(2048, 1, 4096, 32, pipeline_parallel=4)

    assert activation_bytes(2048, 1, 4096, 32, pipeline_parallel=4, virtual_stages=2) == pytest.approx(plain * (1 + 3 / 8))


@settings(deadline=None)
@given(st.floats(1e6, 1e13), st.sampled_from(list(RECIPES)), st.integers(1, 4096))
def test_each_stage_of_sharding_takes_no_more_than_the_one_before(parameters: float, recipe: str, ranks: int) -> None:
    """DDP, ZeRO-1, ZeRO-2, ZeRO-3; and none less than its share of all."""
    taken = [static_bytes(parameters, recipe, scheme, ranks) for scheme in SCHEMES]

    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(taken))
    assert taken[-1] * ranks == pytest.approx(taken[0])


@settings(deadline=None)
@given(st.integers(128, 65536), st.integers(1, 16), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_recomputing_more_never_holds_more(sequence: int, batch: int, tensor: int, sequence_parallel: bool) -> None:
    """None, selective, full."""
    held = [
        activation_bytes(sequence, batch, 8192, 80, 64, mode, tensor, sequence_parallel) for mode in ("none", "selective", "full")
    ]

    assert held[0] >= held[1] >= held[2]


@pytest.mark.parametrize("parameters", [0, -1, nan, inf, 1e30, 10**400, True])
def test_parameters_that_cannot_be_are_refused(parameters: float) -> None:
    """With a sentence that names them."""
    with pytest.raises(ValueError, match=r"^parameters must be .*\.$"):
        static_bytes(parameters)


def test_what_does_not_go_together_is_refused() -> None:
    """Half a shape, logits without a sequence, a frozen base without adapters, words that are none."""
    with pytest.raises(ValueError, match="give all three or none"):
        training_memory(8e9, sequence=2048)
    with pytest.raises(ValueError, match="Logits need sequence"):
        training_memory(8e9, vocabulary=1000)
    with pytest.raises(ValueError, match="frozen_parameters belong to lora and qlora"):
        static_bytes(8e9, frozen_parameters=1e9)
    with pytest.raises(ValueError, match="recipe must be one of"):
        static_bytes(8e9, "adamw")
    with pytest.raises(ValueError, match="layers must be a whole number"):
        activation_bytes(2048, 1, 4096, 0)
    with pytest.raises(ValueError, match="give heads"):
        activation_bytes(2048, 1, 4096, 32, recompute="none")
    with pytest.raises(ValueError, match="memory_bytes must be above 0"):
        training_memory(8e9, memory_bytes=0)
