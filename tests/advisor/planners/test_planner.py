"""What every planner declares, for the command line, REST and pages alike."""

import dataclasses
import inspect
import re
from typing import Any

import pytest

from advisor.planners.planner import Planner, load
from advisor.planners.units import SUFFIXES

ALL = load()
NAMES = (
    "batch", "checkpoint-interval", "collectives", "compatibility", "dataloader-workers", "energy", "inference-memory", "model-flops",
    "node-size", "roofline", "scaling", "training-memory",
)  # fmt: skip


def named(name: str) -> Planner:
    """One planner."""
    return next(planner for planner in ALL if planner.name == name)


def example(planner: Planner) -> dict[str, object]:
    """The worked example as values."""
    known = {one.name: one for one in planner.accepted}
    return {name: known[name].read(text) for name, text in planner.example.items()}


def test_there_are_twelve() -> None:
    """One file each, found by scanning the folder."""
    assert tuple(planner.name for planner in ALL) == NAMES


@pytest.mark.parametrize("planner", ALL, ids=lambda planner: planner.name)
def test_the_declared_parameters_are_those_of_the_function(planner: Planner) -> None:
    """With the same defaults: who calls the function gets what the command line gives."""
    taken = inspect.signature(planner.call).parameters

    assert set(taken) == {one.name for one in planner.parameters}
    for one in planner.parameters:
        default = taken[one.name].default
        if one.default is not None:
            assert default is inspect.Parameter.empty or default == one.default, one.name
        elif one.optional:
            assert default is None, one.name
        else:
            assert default is inspect.Parameter.empty, one.name


@pytest.mark.parametrize("planner", ALL, ids=lambda planner: planner.name)
def test_parameters_have_flags_defaults_and_sliders_within_what_is_accepted(planner: Planner) -> None:
    """Flags are unique, sliders lie inside, every line of help says something."""
    assert len({one.option for one in planner.accepted}) == len(planner.accepted)
    for one in planner.accepted:
        assert one.about
        assert not one.about.endswith(".")
        if one.default is not None:
            assert one.checked(one.default) == one.default
        if one.slider:
            assert one.low <= one.slider[0] < one.slider[1] <= one.high, one.name


@pytest.mark.parametrize("planner", ALL, ids=lambda planner: planner.name)
def test_results_are_frozen_and_every_field_has_a_label_and_a_unit_that_its_name_bears(planner: Planner) -> None:
    """So that a page and a REST view can show them without knowing the planner."""
    result = planner.plan(example(planner))
    ends = {
        "bytes": "_bytes",
        "bytes_per_second": "_per_s",
        "seconds": "_s",
        "hours": "_hours",
        "watts": "_w",
        "kilowatt_hours": "_kwh",
    }
    ends |= {"kilograms": "_kg", "ratio": "_ratio", "flop_per_second": "_flop_per_s", "flop_per_byte": "_flop_per_byte"}

    assert isinstance(result, planner.result)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, dataclasses.fields(result)[0].name, 1)
    for line in planner.lines(result):
        assert line.label
        assert line.name.endswith(ends.get(line.unit, "")) or "bytes_per" in line.name, line.name


@pytest.mark.parametrize("planner", ALL, ids=lambda planner: planner.name)
def test_every_number_that_cannot_be_is_refused_with_a_sentence(planner: Planner) -> None:
    """Zero where it cannot be, below zero, not a number, infinite, too large, a word: whatever the parameter."""
    good = example(planner)
    for one in planner.parameters:
        if one.unit in ("words", "flag"):
            continue
        bad: list[Any] = [-1.0, float("nan"), float("inf"), 1e30, 10**400, "many", True, [], {}]
        bad += [0] if one.low > 0 else []
        bad += [1.5] if one.whole else []
        for value in bad:
            with pytest.raises(ValueError, match=r"\.$") as caught:
                planner.plan({**good, one.name: value})
            assert one.name in str(caught.value)


@pytest.mark.parametrize("planner", ALL, ids=lambda planner: planner.name)
def test_the_ends_of_every_range_are_planned_or_refused_but_never_fail(planner: Planner) -> None:
    """No overflow, no division by zero, no infinite result."""
    good = example(planner)
    for one in planner.parameters:
        if one.unit in ("words", "flag"):
            continue
        for value in (one.low, one.high, *(one.slider or ())):
            try:
                result = planner.plan({**good, one.name: int(value) if one.whole else value})
            except ValueError:  # a pair that cannot be, such as two equal measurements; anything else fails
                continue
            for line in planner.lines(result):
                if isinstance(line.value, float):
                    assert abs(line.value) < 1e200, (one.name, value, line)


def test_a_card_fills_what_was_not_given() -> None:
    """And what was given wins."""
    roofline = named("roofline")
    by_card = roofline.plan({"weights_bytes": 16e9, "card": "H100 SXM"})
    given = roofline.plan({"weights_bytes": 16e9, "card": "H100 SXM", "bandwidth_bytes_per_s": 1e12})

    assert by_card.balance_flop_per_byte == pytest.approx(989 / 3.35)
    assert given.token_s == pytest.approx(0.016)
    fp8 = roofline.plan({"weights_bytes": 16e9, "card": "H100 SXM", "dtype": "fp8"})
    assert fp8.balance_flop_per_byte == pytest.approx(1979 / 3.35)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("roofline", {"weights_bytes": 16e9}, "roofline needs bandwidth_bytes_per_s or name a card: "),
        ("roofline", {"weights_bytes": 16e9, "card": "L4", "dtype": "fp4"}, "no fp4 peak of L4; give peak_flop_per_s itself."),
        ("energy", {"gpus": 8, "hours": 2, "card": "B300 SXM"}, "no tdp_w of B300 SXM; give gpu_power_w itself."),
        (
            "compatibility",
            {"torch": "2.14", "card": "MI300X"},
            "The card table tells nothing of MI300X that compatibility takes.",
        ),
        ("energy", {"gpus": 8, "hour": 2}, "energy has no hour; did you mean hours?"),
        ("energy", {"gpus": 8, "xyzzy": 2}, "energy has no xyzzy."),
        ("training-memory", {"parameters": 8e9, "scheme": "fsdp"}, "scheme must be one of ddp, zero1, zero2, zero3, not 'fsdp'."),
        ("training-memory", {"parameters": 8e9, "sequence_parallel": "yes"}, "sequence_parallel must be true or false"),
        ("compatibility", {"torch": 2.14}, "torch must be a word, not 2.14."),
        ("compatibility", {"torch": "2" * 1000}, "torch must be a word"),
    ],
)
def test_what_is_missing_or_unknown_is_told(name: str, values: dict[str, object], said: str) -> None:
    """The nearest name, the range, the words that there are."""
    with pytest.raises(ValueError, match=re.escape(said)):
        named(name).plan(values)


def test_units_of_parameters_can_be_typed() -> None:
    """What a parameter is measured in, `read` knows or takes as a plain number."""
    plain = {"words", "flag", "gpu_hours"}

    assert {one.unit for planner in ALL for one in planner.accepted} - plain <= set(SUFFIXES)
