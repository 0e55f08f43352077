"""What planners refuse: numbers that cannot be, each with a sentence that says which, and what belongs there."""

import math
from typing import Final

LARGEST: Final = 1e24
"""Above any model, memory, rate or time on Earth; products of a few such numbers still are finite."""


def number(name: str, value: float) -> None:
    """Raises ValueError unless `value` is a finite number that a computer of this world could have."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, not {value!r}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value}.")
    if abs(value) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g}, not {float(min(abs(value), 1e300)):g}.")


def positive(**values: float) -> None:
    """Raises ValueError for a value that is no finite number above 0."""
    for name, value in values.items():
        number(name, value)
        if value <= 0:
            raise ValueError(f"{name} must be above 0, not {value:g}.")


def not_negative(**values: float) -> None:
    """Raises ValueError for a value that is no finite number of at least 0."""
    for name, value in values.items():
        number(name, value)
        if value < 0:
            raise ValueError(f"{name} must be at least 0, not {value:g}.")


def share(**values: float) -> None:
    """Raises ValueError for a value that is not above 0 and at most 1."""
    positive(**values)
    for name, value in values.items():
        if value > 1:
            raise ValueError(f"{name} is a share of 1 and must be at most 1, not {value:g}.")


def whole(**values: float) -> None:
    """Raises ValueError for a value that is no whole number of at least 1."""
    for name, value in values.items():
        number(name, value)
        if value < 1 or value != int(value):
            raise ValueError(f"{name} must be a whole number of at least 1, not {value:g}.")


def one_of(name: str, value: str, words: tuple[str, ...]) -> None:
    """Raises ValueError for a word that is not among `words`."""
    if value not in words:
        raise ValueError(f"{name} must be one of {', '.join(words)}, not {value!r}.")
