"""Labels of what a program says of its run: known names, values of their kind, nothing else."""

import pytest

from agents.described import labels
from agents.step_report import Facts
from wire.labels import DESCRIBED, MAX_LABEL, is_label


def test_facts_become_labels_as_flags_are_written() -> None:
    """Whole numbers without a point, booleans as words, words of a list in small letters."""
    facts: Facts = {
        "params": 7_241_732_096, "trainable": 7e9, "flops_per_sample": 4.5e15, "micro_batch": 4, "offload": False, "scaler": True,
        "dtype": "BF16", "sharding": "fsdp", "class": "dense", "quant": "awq",
    }  # fmt: skip

    assert labels(facts, "ann") == {
        "told.params": "7241732096", "told.trainable": "7000000000", "told.flops_per_sample": "4.5e+15", "told.micro_batch": "4",
        "told.offload": "false", "told.scaler": "true", "told.dtype": "bf16", "told.sharding": "fsdp", "told.class": "dense",
        "told.quant": "awq",
    }  # fmt: skip


@pytest.mark.parametrize(
    "facts",
    [
        {"password": "hunter2"},
        {"params": "many"},
        {"params": True},
        {"params": -1},
        {"params": 10**30},
        {"offload": "cpu"},
        {"dtype": "float"},
        {"sharding": "my own"},
        {"quant": "hf_abcdefghijklmnop"},
        {"quant": "ann-special"},
        {"quant": "/home/x"},
    ],
)
def test_what_is_not_known_or_not_of_its_kind_does_not_leave_the_node(facts: Facts) -> None:
    """A name, a path, a key, or a number where a word belongs."""
    assert labels(facts, "ann") == {}


def test_every_description_is_a_label_that_a_server_takes() -> None:
    """Within its length."""
    for name, kind in DESCRIBED.items():
        assert is_label(f"told.{name}")
        assert all(len(word) <= MAX_LABEL for word in (kind if isinstance(kind, tuple) else ()))


def test_a_value_that_is_none_leaves_what_was_told_before() -> None:
    """A later call that misspells a fact takes nothing away."""
    before = labels({"params": 7e9, "layers": 32, "dtype": "bf16"}, "ann")

    after = labels({"params": -1, "layers": "thirty-two", "dtype": "bfloat-16", "hidden": 4096}, "ann", before)

    assert after == before | {"told.hidden": "4096"}
