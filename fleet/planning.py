"""What a planner says, in the reader's language: for the API and for the pages, which say the same."""

import re
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext, pgettext
from django.utils.translation import gettext_lazy as _

from advisor.planners.answer import Answer
from advisor.planners.cards import CARDS, INVENTORY, Card
from advisor.planners.inputs import InputError
from advisor.planners.planner import Parameter, Planner, Shown, load
from advisor.planners.units import Unit, written
from advisor.text import Text

VERDICT: Final = {"pass": _("runs"), "warn": _("runs, with fewer features"), "fail": _("does not run")}


def planners() -> Mapping[str, Planner]:
    """Every planner by its name, in the order of names."""
    return {planner.name: planner for planner in load()}


def told(text: str) -> str:
    """A text of a planner, translated; gettext would answer "" with the catalogue's header."""
    return gettext(text) if text else ""


def sentence(text: Text) -> str:
    """A sentence of a planner with its values; a parameter's own text in it (`about`) is translated too."""
    params = {name: told(str(value)) if name == "about" else value for name, value in text.params.items()}
    try:
        return told(text.id).format_map(params)
    except (ValueError, KeyError, IndexError):  # a translation with a broken field
        return text.english()


def refusal(error: InputError) -> str:
    """What cannot be, as a sentence that names the parameter."""
    return sentence(error.text)


def quantity(value: float | str | bool, unit: Unit) -> str:
    """A value with its unit as an engineer writes it, in the reader's words where it has some."""
    if isinstance(value, bool):
        return pgettext("planner", "yes") if value else pgettext("planner", "no")
    if isinstance(value, str):
        return value
    if unit == "gpu_hours":
        return gettext("{count} GPU-hours").format(count=written(value, "count"))
    return written(value, unit)


def reading(line: Shown) -> str | list[str] | None:
    """A line of a result as a reader wants it: None where it does not apply, several sentences as a list."""
    if line.value in (None, "", ()):
        return None
    if isinstance(line.value, tuple):
        return [sentence(text) for text in line.value]
    if line.name == "verdict":
        return str(VERDICT.get(str(line.value), line.value))
    return quantity(line.value, line.unit)


def of_card(answer: Answer) -> list[str]:
    """What the card told, each figure with the page's name for it, and the card table's own note."""
    if answer.card is None:
        return []
    figures = [f"{short(told(one.about))} {quantity(value, one.unit)}" for one, value in answer.told]
    said = gettext("By the card table, {card}: {figures}.").format(
        card=answer.card.name, figures="; ".join(figures) or gettext("nothing")
    )
    notes = [said, *([told(answer.card.note)] if answer.card.note else [])]
    if any(one.of_card == "memory_bytes" for one, _value in answer.told):
        notes += _of_memory(answer.card)
    return notes


def _of_memory(card: Card) -> list[str]:
    """Whose figure the card's memory is."""
    vendor = quantity(card.memory_bytes, "bytes") if card.memory_bytes else None
    if card.memory_total_source == INVENTORY and vendor is None:
        return [gettext("The memory is the least that a driver of this site tells of such a card.")]
    if card.memory_total_source == INVENTORY:
        says = gettext("The memory is the least that a driver of this site tells of such a card; the vendor's figure is {size}.")
    elif card.memory_total_bytes:
        says = gettext("The memory is what drivers tell of such a card; the vendor's figure is {size}.")
    else:
        says = gettext("The memory is the vendor's figure; what drivers tell of such a card may differ by a few per cent.")
    return [says.format(size=vendor)]


def short(about: str) -> str:
    """A line of help without what it adds behind its first part, as the name of a figure or an axis."""
    return re.split("[:;：；]", about, maxsplit=1)[0]


def described(parameter: Parameter) -> dict[str, Any]:
    """One input as REST and pages tell of it; bounds are None for words."""
    numeric = parameter.unit not in ("words", "flag")
    return {
        "name": parameter.name,
        "about": told(parameter.about),
        "kind": {"words": "choice" if parameter.choices else "words", "flag": "flag"}.get(
            parameter.unit, "whole" if parameter.whole else "number"
        ),
        "unit": parameter.unit if numeric else "",
        "needed": parameter.default is None and not parameter.optional,
        "default": parameter.default,
        "minimum": parameter.low if numeric else None,
        "maximum": parameter.high if numeric else None,
        "slider": list(parameter.slider) if parameter.slider else None,
        "choices": list(parameter.choices),
        "suggested": [card.name for card in CARDS] if parameter.name == "card" else list(parameter.suggested),
        "of_card": bool(parameter.of_card),
    }
