"""A planner's form: each input with what was typed, what stands in for it, its slider, and what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext

from advisor.planners.answer import Answer
from advisor.planners.cards import CARDS, named
from advisor.planners.inputs import InputError
from advisor.planners.planner import Parameter, Planner
from advisor.planners.units import SUFFIXES
from fleet import planning

SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "count": ("", "M", "B", "T"),
    "bytes": ("B", "KiB", "MiB", "GiB", "TiB"),
    "bytes_per_second": ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"),
    "seconds": ("us", "ms", "s", "min", "h"),
    "hours": ("h", "d"),
    "flop_per_second": ("GFLOP/s", "TFLOP/s", "PFLOP/s"),
    "watts": ("W", "kW"),
    "ratio": ("%",),
    "kilograms_per_kilowatt_hour": ("g/kWh", "kg/kWh"),
    "per_second": ("/s",),
}
"""Of each unit, what a slider writes behind a number."""


@dataclass(frozen=True, slots=True)
class Slider:
    """Where a slider goes; with `decades` in equal ratios."""

    low: float
    high: float
    decades: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class Field:
    """One input of the form. `kind` is number, choice, words or flag."""

    name: str
    label: str
    kind: str
    unit: str
    text: str
    stands_in: str
    problem: str
    needed: bool
    slider: Slider | None
    options: tuple[tuple[str, str], ...]
    selected: str
    suggested: tuple[str, ...]

    @property
    def low(self) -> str:
        """The slider's low end as the script reads it, in any language."""
        return "" if self.slider is None else repr(self.slider.low)

    @property
    def high(self) -> str:
        """The slider's high end."""
        return "" if self.slider is None else repr(self.slider.high)


def typed(planner: Planner, query: Mapping[str, str]) -> dict[str, str]:
    """What stands in the fields: what the address says, or the worked example where it says nothing."""
    return {name: text.strip()[:200] for name, text in query.items()} if query else dict(planner.example)


def form(planner: Planner, texts: Mapping[str, str], wrong: Mapping[str, InputError], said: Answer | None) -> list[Field]:
    """Every input, the card first where there is one: it tells others."""
    told = {one.name: planning.quantity(value, one.unit) for one, value in said.told} if said else {}
    of_card = [one for one in planner.accepted if one.name in ("card", "dtype")]
    others = [one for one in planner.accepted if one not in of_card]
    return [
        _field(
            one,
            texts.get(one.name, ""),
            told.get(one.name, ""),
            planning.refusal(wrong[one.name]) if one.name in wrong else "",
        )
        for one in of_card + others
    ]


def elsewhere(planner: Planner, wrong: Mapping[str, InputError]) -> list[str]:
    """What is wrong and stands at no field."""
    names = {one.name for one in planner.accepted}
    return [planning.refusal(error) for name, error in wrong.items() if name not in names]


def suffixes() -> dict[str, dict[str, object]]:
    """For the script: of each unit, what may stand behind a number and how much it is, and what a slider writes."""
    return {unit: {"read": sizes, "written": SHOWN.get(unit, ("",))} for unit, sizes in SUFFIXES.items()}


def _field(one: Parameter, text: str, told: str, problem: str) -> Field:
    kind = {"words": "choice" if one.choices or one.name == "card" else "words", "flag": "flag"}.get(one.unit, "number")
    default = "" if one.default is None or kind in ("choice", "flag") else planning.quantity(one.default, one.unit)
    return Field(
        name=one.name,
        label=planning.told(one.about),
        kind=kind,
        unit=one.unit,
        text=text,
        stands_in=told or default,
        problem=problem,
        needed=one.default is None and not one.optional and not one.of_card,
        slider=Slider(*one.slider, one.decades, one.whole) if one.slider and kind == "number" else None,
        options=_options(one, text),
        selected=chosen(one, text),
        suggested=one.suggested,
    )


def _options(one: Parameter, text: str) -> tuple[tuple[str, str], ...]:
    """Value and word of each choice, the chosen one first made sure to be among them: what is refused is kept too."""
    if one.name == "card":
        options = (("", gettext("none")), *((card.name, card.name) for card in CARDS))
    else:
        options = tuple((word, word) for word in one.choices)
    known = [value for value, _word in options]
    return options if not text or chosen(one, text) in known else (*options, (text, text))


def chosen(one: Parameter, text: str) -> str:
    """The value of the choice that is selected: a card by its own name, however it was written."""
    if one.name == "card" and text:
        try:
            return named(text).name
        except InputError:
            return text
    return text or str(one.default or "")
