"""`Planner`: what it takes, its arithmetic and what it tells; and `load()`, which finds every planner in advisor/planners/.

A planner is one file with one `PLANNER`. The parameters declared there are all that the command line, REST and pages know of
it: a name that bears its unit, a default, the range that is accepted, the range of a slider and a line of help.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final, TypeAlias

from advisor import planners
from advisor.planners import inputs
from advisor.planners.cards import DTYPES, Card, named
from advisor.planners.idle import Idle
from advisor.planners.inputs import InputError
from advisor.planners.plot import Plot
from advisor.planners.units import SUFFIXES, Unit, read
from advisor.text import Text, _

Value: TypeAlias = float | str | bool
CardOf: TypeAlias = Callable[[str], Card]

DECADES: Final = 100.0
_SUFFIXES: Final = ("_bytes_per_s", "_flop_per_s", "_bytes", "_flop", "_hours", "_s", "_w")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One thing that a planner takes. Without a default it must be given, unless it is `optional` or a card tells it."""

    name: str
    unit: Unit
    about: str
    default: Value | None = None
    low: float = 0.0
    high: float = inputs.LARGEST
    slider: tuple[float, float] | None = None
    whole: bool = False
    optional: bool = False
    choices: tuple[str, ...] = ()
    suggested: tuple[str, ...] = ()
    """Words that are likely, where others may be typed too."""
    of_card: str = ""
    """The field of `Card` that gives it where a card is named; `peak`: the dense peak of the dtype."""

    @property
    def decades(self) -> bool:
        """Whether the slider spans so much that it is walked in equal ratios; one from zero never is."""
        return self.slider is not None and self.slider[1] >= DECADES * self.slider[0] > 0

    @property
    def option(self) -> str:
        """The flag of the command line: the name without its unit, which is typed with the number (`--memory 80GiB`)."""
        unit = next((suffix for suffix in _SUFFIXES if self.name.endswith(suffix)), "")
        name = self.name if self.unit == "per_second" else self.name.removesuffix(unit)
        return "--" + name.replace("_", "-")

    def read(self, text: str) -> Value:
        """The value that `text` tells; raises ValueError with a sentence."""
        if self.unit == "words":
            return self.checked(text)
        if self.unit == "flag":
            if text not in ("yes", "no"):
                raise InputError(_("{name} must be yes or no, not {value}."), self.name, value=f"{text!r:.60}")
            return text == "yes"
        try:
            value = read(text, self.unit)
        except ValueError:
            raise self._unreadable(text) from None
        return self.checked(value)

    def _unreadable(self, text: str) -> InputError:
        units = ", ".join(suffix for suffix in SUFFIXES.get(self.unit, ()) if suffix)
        if not units:
            return InputError(_("{name}: {value} is not a number."), self.name, value=f"{text!r:.60}")
        return InputError(
            _("{name}: {value} is not a number, alone or with one of {units}."), self.name, value=f"{text!r:.60}", units=units
        )

    def checked(self, value: object) -> Value:
        """`value` itself, whole numbers as int; raises ValueError with a sentence for what cannot be."""
        if self.unit == "words":
            if not isinstance(value, str) or len(value) > 200:
                raise InputError(_("{name} must be a word, not {value}."), self.name, value=f"{value!r:.60}")
            if self.choices:
                inputs.one_of(self.name, value, self.choices)
            return value
        if self.unit == "flag":
            if not isinstance(value, bool):
                raise InputError(_("{name} must be true or false, not {value}."), self.name, value=f"{value!r:.60}")
            return value
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(_("{name} must be a number, not {value}."), self.name, value=f"{value!r:.60}")
        inputs.number(self.name, value)
        if not self.low <= value <= self.high:
            raise InputError(
                _("{name} must be from {low} to {high}, not {value}."),
                self.name,
                low=f"{self.low:g}",
                high=f"{self.high:g}",
                value=f"{value:g}",
            )
        if self.whole and value != int(value):
            raise InputError(_("{name} must be a whole number, not {value}."), self.name, value=f"{value:g}")
        return int(value) if self.whole else value


NOT_COUNTED: Final = _("Not counted")
"""The label of the sentences that tell what of a sum was not given; absent is not zero."""


def shown(label: str, unit: Unit) -> Any:
    """A field of a result: what it is called and its unit."""
    return field(metadata={"label": label, "unit": unit})


@dataclass(frozen=True, slots=True)
class Shown:
    """One line of a result: `value` is None where it does not apply."""

    name: str
    label: str
    unit: Unit
    value: float | bool | str | tuple[Text, ...] | None

    @property
    def plain(self) -> object:
        """The value as JSON has it: sentences in English."""
        return [text.english() for text in self.value] if isinstance(self.value, tuple) else self.value


@dataclass(frozen=True, slots=True)
class Caution:
    """What is said beside a result whose field `of` is so; a field that is None says nothing. `text` may name fields of the result."""

    of: str
    when: Callable[[Any], bool]
    text: str
    unless: Callable[[Any], bool] = lambda _result: False
    """Of the whole result: where it says nothing after all."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that a page shows in place of a plot: a word a cell, "" where there is nothing; `here` are row and column of the plan."""

    title: str
    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    here: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Planner:
    """One planner; `call` takes the parameters by name and returns a frozen dataclass whose fields are `shown`."""

    name: str
    title: str
    about: str
    formula: tuple[str, ...]
    assumptions: tuple[str, ...]
    sources: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    call: Callable[..., Any]
    result: type[Any]
    example: Mapping[str, str]
    """One worked example: names of parameters with what is typed for them."""
    answers: tuple[str, ...] = ()
    """The fields of the result that people ask for first."""
    cautions: tuple[Caution, ...] = ()
    idle: tuple[Idle, ...] = ()
    """The inputs that change nothing beside others, each with what it waits for."""
    plots: tuple[Plot, ...] = ()
    """What a page may draw; the first that says something of the inputs is drawn."""
    grid: Callable[[Mapping[str, Value | None]], Grid] | None = None

    @property
    def accepted(self) -> tuple[Parameter, ...]:
        """The parameters, and `card` with `dtype` where a card can tell some of them."""
        told = [parameter.of_card for parameter in self.parameters if parameter.of_card]
        return self.parameters + ((CARD,) if told else ()) + ((DTYPE,) if "peak" in told else ())

    def plan(self, values: Mapping[str, object]) -> Any:
        """The result for `values`; raises ValueError with a sentence for what is missing, unknown or cannot be."""
        return self.call(**self.taken(values))

    def taken(self, values: Mapping[str, object], card_of: CardOf = named) -> dict[str, Value | None]:
        """What is planned with: `values`, what a card tells, and defaults; raises ValueError as `plan` does.

        `card_of`: the card of a name, where somebody knows more of it than the card table.
        """
        known = {parameter.name: parameter for parameter in self.accepted}
        for name in values:
            if name not in known:
                if close := difflib.get_close_matches(name, list(known), 1):
                    raise InputError(
                        _("{planner} has no {name}; did you mean {close}?"), name[:60], planner=self.name, close=close[0]
                    )
                raise InputError(_("{planner} has no {name}."), name[:60], planner=self.name)
        given = {name: known[name].checked(value) for name, value in values.items() if value is not None}
        card = card_of(str(given.pop("card"))) if "card" in given else None
        asked = "dtype" in given
        dtype = str(given.pop("dtype", DTYPE.default))
        taken: dict[str, Value | None] = {}
        for parameter in self.parameters:
            value = given.get(parameter.name)
            if value is None and card and parameter.of_card:
                value = _of(card, parameter, dtype, asked)
            if value is None:
                value = parameter.default
            if value is None and not parameter.optional:
                raise self.needs(parameter, card is not None)
            taken[parameter.name] = value
        if card and all(taken[one.name] is None for one in self.parameters if one.of_card):
            raise InputError(
                _("The card table tells nothing of {card} that {planner} takes."), "card", card=card.name, planner=self.name
            )
        return taken

    def needs(self, parameter: Parameter, with_card: bool = False) -> InputError:
        """What to say where `parameter` is missing; `about` in it is a text of its own to translate."""
        told = {"planner": self.name, "about": parameter.about}
        if parameter.of_card and not with_card:
            return InputError(_("{planner} needs {name} or name a card: {about}"), parameter.name, **told)
        return InputError(_("{planner} needs {name}: {about}"), parameter.name, **told)

    def lines(self, result: Any) -> tuple[Shown, ...]:
        """The fields of `result` with their labels and units."""
        return tuple(
            Shown(one.name, one.metadata["label"], one.metadata["unit"], getattr(result, one.name)) for one in fields(result)
        )


CARD: Final = Parameter(
    "card", "words", _("A GPU of the card table, which then tells the figures that are not given"), optional=True
)
DTYPE: Final = Parameter(
    "dtype", "words", _("The number format whose dense peak is taken from the card"), default="bf16", choices=DTYPES
)


def _of(card: Card, parameter: Parameter, dtype: str, asked: bool) -> Value | None:
    """What the card tells; a peak that was asked for by its dtype must be there, even where planning goes on without one."""
    value: Value | None
    if parameter.of_card == "peak":
        value = card.dense_flop_per_s.get(dtype)
    else:
        value = card.planned_memory_bytes if parameter.of_card == "memory_bytes" else getattr(card, parameter.of_card)
    needed = (parameter.default is None and not parameter.optional) or (asked and parameter.of_card == "peak")
    if value is None and needed:
        what = f"{dtype} peak" if parameter.of_card == "peak" else parameter.of_card
        raise InputError(
            _("The card table has no {what} of {card}; give {name} itself."), parameter.name, what=what, card=card.name
        )
    return value


@cache
def load() -> tuple[Planner, ...]:
    """Every planner, by name."""
    found = []
    for module in pkgutil.iter_modules(planners.__path__):
        planner = getattr(importlib.import_module(f"{planners.__name__}.{module.name}"), "PLANNER", None)
        if planner is None:
            continue
        if planner.name.replace("-", "_") != module.name:
            raise ValueError(f"advisor/planners/{module.name}.py holds the planner {planner.name}; its file must bear its name.")
        found.append(planner)
    return tuple(sorted(found, key=lambda planner: str(planner.name)))
