"""What planners refuse: numbers that cannot be, each with a sentence that says which, and what belongs there."""

import math
from typing import Final

from advisor.text import Text, Value, _

LARGEST: Final = 1e24
"""Above any model, memory, rate or time on Earth; products of a few such numbers still are finite."""


class InputError(ValueError):
    """What was given cannot be: `text` says so, for any language; `name` is the parameter that it is about, "" where it is several."""

    def __init__(self, text: str, name: str = "", **params: Value) -> None:
        self.text = Text(text, {"name": name, **params})
        self.name = name
        super().__init__(self.text.english())


def number(name: str, value: float) -> None:
    """Raises InputError unless `value` is a finite number that a computer of this world could have."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(_("{name} must be a number, not {value}."), name, value=f"{value!r:.60}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(_("{name} must be a finite number, not {value}."), name, value=str(value))
    if abs(value) > LARGEST:
        raise InputError(
            _("{name} must be at most {high}, not {value}."),
            name,
            high=f"{LARGEST:g}",
            value=f"{float(min(abs(value), 1e300)):g}",
        )


def positive(**values: float) -> None:
    """Raises InputError for a value that is no finite number above 0."""
    for name, value in values.items():
        number(name, value)
        if value <= 0:
            raise InputError(_("{name} must be above 0, not {value}."), name, value=f"{value:g}")


def not_negative(**values: float) -> None:
    """Raises InputError for a value that is no finite number of at least 0."""
    for name, value in values.items():
        number(name, value)
        if value < 0:
            raise InputError(_("{name} must be at least 0, not {value}."), name, value=f"{value:g}")


def share(**values: float) -> None:
    """Raises InputError for a value that is not above 0 and at most 1."""
    positive(**values)
    for name, value in values.items():
        if value > 1:
            raise InputError(_("{name} is a share of 1 and must be at most 1, not {value}."), name, value=f"{value:g}")


def whole(**values: float) -> None:
    """Raises InputError for a value that is no whole number of at least 1."""
    for name, value in values.items():
        number(name, value)
        if value < 1 or value != int(value):
            raise InputError(_("{name} must be a whole number of at least 1, not {value}."), name, value=f"{value:g}")


def one_of(name: str, value: str, words: tuple[str, ...]) -> None:
    """Raises InputError for a word that is not among `words`."""
    if value not in words:
        raise InputError(_("{name} must be one of {words}, not {value}."), name, words=", ".join(words), value=f"{value!r:.60}")
