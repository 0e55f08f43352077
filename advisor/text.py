"""Messages as ids with parameters: the advisor writes English source text, others translate it.

`_` marks a string for gettext's extraction and returns it as it is; `Text.english()` fills it in.
Number formats stand in the text (`{share:.0%}`), so a translation may place and format them its own way.
"""

import shlex
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from string import Formatter
from typing import TypeAlias

Value: TypeAlias = str | int | float


def _(text: str) -> str:
    """Mark `text` for translation."""
    return text


@lru_cache(maxsize=2000)  # the texts of rules: each finding asks for those of its rule
def fields(text: str) -> tuple[str, ...]:
    """The names of the `{name:format}` fields of `text`, each once, in order."""
    return tuple(dict.fromkeys(name for _literal, name, _spec, _conversion in Formatter().parse(text) if name))


class _Unknown:
    """Stands for a parameter that was not measured, whatever format is asked of it."""

    def __format__(self, spec: str) -> str:
        return "?"


class _Params(dict[str, Value]):
    def __missing__(self, key: str) -> _Unknown:
        return _Unknown()


@dataclass(frozen=True, slots=True)
class Text:
    """A sentence: `id` is the English source with `{name:format}` fields, `params` their values."""

    id: str
    params: Mapping[str, Value] = field(default_factory=dict)

    def english(self) -> str:
        """The sentence in English; a parameter that is missing reads "?"."""
        return self.id.format_map(_Params(self.params))


class UnsafeValueError(ValueError):
    """A value holds control characters and must not reach a command line."""


def within_quotes(template: str, names: Collection[str]) -> str | None:
    """The first of the fields `names` whose place in `template` undoes the quoting of its value; None where none does.

    A quoted value is one word of a command only where the shell is not within quotes already: within quotes the two cancel each other,
    after a backslash the first of them is no quote, and backticks and here-documents read what is between them once more.
    """
    parts = [(literal, name) for literal, name, _spec, _conversion in Formatter().parse(template)]
    text = "".join(literal + ("\0" if name else "") for literal, name in parts)
    fields_left = [name for _literal, name in parts if name]
    within, escaped = "", False
    for place, sign in enumerate(text):
        if sign == "\0":
            name = fields_left.pop(0)
            if name in names and (within or escaped or "<<" in text[:place]):
                return name
        elif within:
            within = "" if sign == within and not escaped else within
        elif sign in "'\"`" and not escaped and not _is_apostrophe(text, place):
            within = sign
        escaped = sign == "\\" and not escaped and within != "'"
    return None


def _is_apostrophe(text: str, place: int) -> bool:
    """True for that of “the job's owner”, which opens no quotation."""
    if text[place] != "'" or not text[:place][-1:].isalpha():
        return False
    return text[place + 1 : place + 2].isalpha() or "'" not in text[place + 1 :]


def quoted(template: str, values: Mapping[str, Value | None], needed: Iterable[str]) -> str | None:
    """`template` with its fields filled for a shell: text quoted, whole numbers bare; None where a needed value is absent.

    Raises UnsafeValueError for text with control characters: a name with a newline is an attack, not a name.
    """
    safe: dict[str, Value] = {}
    for name in needed:
        value = values.get(name)
        if value is None:
            return None
        if isinstance(value, str):
            if any(unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") for character in value):
                raise UnsafeValueError(f"{name} holds control characters")
            safe[name] = shlex.quote(value)
        else:
            safe[name] = int(value) if float(value).is_integer() else value
    return template.format_map(safe)
