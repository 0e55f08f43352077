"""`answer()`: what a planner says of the values it was given: the result's lines, cautions, and what a card told.

The command line, REST and pages all say what stands here, each in its own form.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from advisor.planners.cards import Card, named
from advisor.planners.idle import unused
from advisor.planners.inputs import InputError
from advisor.planners.planner import CardOf, Parameter, Planner, Shown, Value
from advisor.planners.units import written
from advisor.text import Text, fields


@dataclass(frozen=True, slots=True)
class Answer:
    """`taken` is what was planned with, `told` what the card gave of it; `cautions` are what to be careful of, and the inputs that changed nothing."""

    taken: Mapping[str, Value | None]
    result: Any
    lines: tuple[Shown, ...]
    cautions: tuple[Text, ...]
    card: Card | None
    told: tuple[tuple[Parameter, Value], ...]


def answer(planner: Planner, values: Mapping[str, object], card_of: CardOf = named) -> Answer:
    """The answer to `values`; raises InputError as `Planner.plan` does. `card_of` as `Planner.taken` has it."""
    taken = planner.taken(values, card_of)
    result = planner.call(**taken)
    card = card_of(str(values["card"])) if values.get("card") is not None else None
    told = tuple(
        (one, value)
        for one in planner.parameters
        if card and one.of_card and values.get(one.name) is None and (value := taken[one.name]) is not None
    )
    return Answer(
        taken, result, planner.lines(result), (*_cautions(planner, result), *unused(planner, values, taken)), card, told
    )


def read(planner: Planner, typed: Mapping[str, object]) -> tuple[dict[str, Value], dict[str, InputError]]:
    """The values of what was typed or sent, and by name what cannot be; text with a unit is read, an empty one is not given.

    What must be given and was not is among what cannot be.
    """
    known = {one.name: one for one in planner.accepted}
    values: dict[str, Value] = {}
    wrong: dict[str, InputError] = {}
    for name, value in typed.items():
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        try:
            one = known.get(name)
            if one is None:
                planner.taken({name: value})  # says so
            elif isinstance(value, str):
                values[name] = one.read(value.strip())
            else:
                values[name] = one.checked(value)
            if name == "card":
                named(str(value))
        except InputError as error:
            wrong[error.name or name] = error
    with_card = "card" in values and "card" not in wrong
    for one in planner.parameters:
        needed = one.default is None and not one.optional and not (one.of_card and with_card)
        if needed and one.name not in values and one.name not in wrong:
            wrong[one.name] = planner.needs(one, with_card)
    return values, wrong


def _cautions(planner: Planner, result: Any) -> list[Text]:
    units = {line.name: line for line in planner.lines(result)}
    said = []
    for caution in planner.cautions:
        value = getattr(result, caution.of)
        if value is not None and caution.when(value) and not caution.unless(result):
            told = {name: written(float(getattr(result, name)), units[name].unit) for name in fields(caution.text)}
            said.append(Text(caution.text, told))
    return said
