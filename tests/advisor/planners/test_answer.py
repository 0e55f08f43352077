"""What is typed or sent to a planner, and what is said back."""

import pytest

from advisor.planners.answer import answer, read
from advisor.planners.planner import Planner, load

SHAPE = {"sequence": 128, "hidden": 512, "layers": 4, "vocabulary": 1000}
BY_NAME = {planner.name: planner for planner in load()}


def test_text_with_a_unit_and_plain_values_are_read_alike() -> None:
    """What a form sends as text, a program sends as a number; an empty field is not given."""
    planner = BY_NAME["training-memory"]
    typed, wrong = read(planner, {"parameters": "8.03B", "memory_bytes": "80GiB", "sequence_parallel": "yes", "vocabulary": " "})
    sent, wrong_too = read(
        planner, {"parameters": 8.03e9, "memory_bytes": 80 * 2**30, "sequence_parallel": True, "vocabulary": None}
    )

    assert (wrong, wrong_too) == ({}, {})
    assert typed == sent


def test_everything_wrong_is_told_at_once() -> None:
    """By the parameter that it is about: what cannot be read, what must be given, what there is not."""
    values, wrong = read(BY_NAME["checkpoint-interval"], {"stall_s": "nan", "restart_s": "x", "gups": 8})

    assert values == {}
    assert {name: str(error) for name, error in wrong.items()} == {
        "stall_s": "stall_s must be a finite number, not nan.",
        "restart_s": "restart_s: 'x' is not a number, alone or with one of s, ms, us, µs, min, h, d.",
        "gups": "checkpoint-interval has no gups; did you mean gpus?",
        "gpus": "checkpoint-interval needs gpus: GPUs of the job",
    }


def test_what_a_card_tells_need_not_be_given() -> None:
    """Unless there is no such card."""
    planner = BY_NAME["roofline"]

    assert read(planner, {"weights_bytes": 1e9, "card": "L4"})[1] == {}
    assert set(read(planner, {"weights_bytes": 1e9, "card": "L5"})[1]) == {"card", "bandwidth_bytes_per_s"}
    assert set(read(planner, {"weights_bytes": 1e9})[1]) == {"bandwidth_bytes_per_s"}


def test_what_the_card_told_is_in_the_answer() -> None:
    """What was given itself is not."""
    said = answer(BY_NAME["roofline"], {"weights_bytes": 16e9, "card": "NVIDIA H200", "bandwidth_bytes_per_s": 4e12})

    assert said.card is not None
    assert [(one.name, value) for one, value in said.told] == [("peak_flop_per_s", 989e12)]


@pytest.mark.parametrize(
    ("name", "values", "careful"),
    [
        ("training-memory", {"parameters": 7e9, "card": "L4"}, True),
        ("training-memory", {"parameters": 7e8, "card": "L4"}, True),  # activations and logits are not counted
        ("training-memory", {"parameters": 7e8, "card": "L4", **SHAPE}, False),
        ("training-memory", {"parameters": 7e9, **SHAPE}, False),  # of no GPU: says nothing
        ("energy", {"gpus": 8, "hours": 1, "gpu_power_w": 400}, True),
        ("energy", {"gpus": 8, "hours": 1, "gpu_power_w": 400, "host_power_w": 900, "pue": 1.3}, False),
        ("inference-memory", {"parameters": 70.55e9, "layers": 80, "card": "H100 SXM"}, True),
        ("inference-memory", {"parameters": 8.03e9, "layers": 32, "card": "H100 SXM"}, False),
        ("checkpoint-interval", {"gpus": 16_384, "stall_s": 1200}, True),
        ("checkpoint-interval", {"gpus": 16_384, "stall_s": 60, "restart_s": 0}, False),
        ("dataloader-workers", {"sample_time_s": 0.012, "batch": 256, "step_s": 0.35, "cores": 64, "ranks": 8}, True),
        ("dataloader-workers", {"sample_time_s": 0.012, "batch": 256, "step_s": 0.35, "cores": 96, "ranks": 8}, False),
        ("node-size", {"gpus": 8, "card": "H100 SXM", "cores_present": 32}, True),
        ("node-size", {"gpus": 8, "card": "H100 SXM", "cores_present": 44}, False),
        ("scaling", {"gpus": 8, "rate_of_one": 100, "rate_of_all": 900}, True),
        ("collectives", {"message_bytes": 14e9, "ranks": 8, "bus_bytes_per_s": 20e9, "step_s": 2}, True),
        ("compatibility", {"torch": "2.14", "driver": "535.104.05"}, True),
        ("compatibility", {"torch": "2.14", "driver": "595.45.04"}, False),
    ],
)
def test_a_result_that_bodes_ill_is_said_in_words(name: str, values: dict[str, object], careful: bool) -> None:
    """And one that does not, or that is not known, says nothing."""
    assert bool(answer(BY_NAME[name], values).cautions) == careful


@pytest.mark.parametrize("planner", BY_NAME.values(), ids=lambda planner: planner.name)
def test_cautions_are_about_fields_of_the_result(planner: Planner) -> None:
    """And are sentences."""
    for caution in planner.cautions:
        assert caution.of in planner.result.__dataclass_fields__
        assert caution.text.endswith((".", "?"))


def test_what_is_not_counted_is_said_with_the_least_that_is_needed() -> None:
    """As a sentence beside the result, which does not say that it fits."""
    said = answer(BY_NAME["training-memory"], {"parameters": 8e9, "card": "H200 SXM"})

    assert [text.english() for text in said.cautions] == [
        "Whether it fits is unknown without what is not counted: at least 126.2 GiB is needed."
    ]
    assert said.result.fits is None
