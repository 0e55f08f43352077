"""Inputs that change nothing: every planner names them, and names no other."""

from collections.abc import Iterator
from typing import Any

import pytest

from advisor.planners.answer import answer
from advisor.planners.planner import Parameter, Planner, load
from tests.advisor.planners.test_planner import ALL, example, named


def needed(planner: Planner) -> dict[str, Any]:
    """What must be given alone, as the example has it or a card tells it."""
    shown = example(planner)
    told = {one.name: shown.get(one.name) for one in planner.parameters if one.default is None and not one.optional}
    values = {name: value for name, value in told.items() if value is not None}
    return values | ({"card": shown["card"]} if len(values) < len(told) else {})


def tried(one: Parameter) -> Iterator[Any]:
    """Values over the whole range, none of them the default."""
    if one.unit == "flag":
        yield not one.default
    elif one.choices:
        yield from (word for word in one.choices if word != one.default)
    elif one.slider:
        low, high = one.slider
        for share in (0.0, 0.01, 0.1, 0.3, 0.7, 1.0):
            value = low + (high - low) * share
            if (value := int(value) if one.whole else value) != one.default:
                yield value


def bases() -> Iterator[tuple[Planner, dict[str, Any]]]:
    """Of each planner what must be given, the worked example, and the example without each of its inputs."""
    for planner in load():
        shown = example(planner)
        yield planner, needed(planner)
        yield planner, shown
        for name in shown:
            yield planner, {other: value for other, value in shown.items() if other != name}


@pytest.mark.parametrize(("planner", "base"), [pytest.param(*one, id=f"{one[0].name}-{k}") for k, one in enumerate(bases())])
def test_an_input_changes_the_result_or_is_named(planner: Planner, base: dict[str, Any]) -> None:
    """Each input in turn, over its range, beside the others as they are: what is named changes nothing, and all that changes nothing is named."""
    try:
        plain = answer(planner, base).result
    except ValueError:  # it must be given, so it does something
        return
    if getattr(plain, "fits", None) is False:  # nothing does anything where nothing fits
        return
    for one in planner.accepted:
        if one.name in base or one.name in ("card", "dtype") or (one.unit == "words" and not one.choices):
            continue
        told, changed, refused = [], False, False
        for value in tried(one):
            try:
                said = answer(planner, {**base, one.name: value})
            except ValueError:
                refused = True
                continue
            told.append(any(text.params.get("name") == one.name for text in said.cautions))
            changed = changed or said.result != plain
        assert any(told) != changed or (refused and not told), (one.name, told, changed)
        assert not told or all(told) or changed, one.name


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("roofline", {"weights_bytes": 16e9, "card": "H200 SXM", "prompt_tokens": 4096}, ["prompt_tokens changes nothing here: it counts only with parameters."]),
        ("node-size", {"gpus": 8, "gpu_memory_bytes": 8e10, "samples_per_s": 100}, ["samples_per_s changes nothing here: it counts only with disk_size_bytes."]),
        ("node-size", {"gpus": 8, "gpu_memory_bytes": 8e10, "message_bytes": 1e9}, ["message_bytes changes nothing here: it counts only with ranks, step_s."]),
        (
            "checkpoint-interval", {"gpus": 8, "stall_s": 60, "restart_s": 60, "mtbf_hours": 24, "gpu_hours_per_failure": 1000},
            ["gpu_hours_per_failure changes nothing here: mtbf_hours goes before it."],
        ),
        ("batch", {"micro_batch": 4, "card": "L4"}, ["card changes nothing here: it counts only with first_batch, first_peak_bytes, second_batch, second_peak_bytes."]),
        ("energy", {"gpus": 8, "hours": 1, "gpu_power_w": 400, "host_power_w": 1, "pue": 1, "card": "L4"}, ["card changes nothing here: gpu_power_w goes before it."]),
        ("roofline", {"weights_bytes": 16e9, "bandwidth_bytes_per_s": 1e12, "dtype": "fp8"}, ["dtype changes nothing here: it counts only with card."]),
        ("roofline", {"weights_bytes": 16e9, "card": "H200 SXM", "peak_flop_per_s": 1e15, "dtype": "fp8"}, ["dtype changes nothing here: peak_flop_per_s goes before it."]),
        ("training-memory", {"parameters": 1e12, "card": "L4", "micro_batch": 1}, []),  # the default says nothing
    ],
)  # fmt: skip
def test_what_it_waits_for_is_said(name: str, values: dict[str, object], says: list[str]) -> None:
    """By the names of the inputs, which the command line writes as flags."""
    told = [text.english() for text in answer(named(name), values).cautions]

    assert [text for text in told if "changes nothing" in text] == says


@pytest.mark.parametrize("planner", ALL, ids=lambda planner: planner.name)
def test_a_worked_example_has_no_input_that_changes_nothing(planner: Planner) -> None:
    """It is what people begin with."""
    assert not [text for text in answer(planner, example(planner)).cautions if "name" in text.params]
