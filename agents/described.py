"""What a program says of its model and its run, as labels of its process: known names alone, each with a value of its kind."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agents.collectors import plain_words
from agents.step_report import Facts
from wire.labels import DESCRIBED

_DIGITS: Final = ".12g"


def labels(facts: Facts, user: str, before: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Labels `told.NAME`; a name that is not known, or a value that is not what it has to be, is left out. `user` is never told.

    Of a name that had a value `before`, that one stands where the new one is left out.
    """
    found: dict[str, str] = {}
    for name, kind in DESCRIBED.items():
        value = facts.get(name)
        if value is None:
            continue
        text = _text(value)
        if isinstance(kind, tuple):
            told = text.lower() if text.lower() in kind else None
        elif kind == "number" and (isinstance(value, bool | str) or value < 0):  # they are counts and sizes
            told = None
        else:
            told = plain_words.of_kind(kind, text, user)
        if told is None:
            told = before.get(f"told.{name}")
        if told is not None:
            found[f"told.{name}"] = told
    return found


def _text(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, _DIGITS) if isinstance(value, float) else str(value)
