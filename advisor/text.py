"""Messages as ids with parameters: the advisor writes English source text, others translate it.

`_` marks a string for gettext's extraction and returns it as it is; `Text.english()` fills it in.
Number formats stand in the text (`{share:.0%}`), so a translation may place and format them its own way.
"""

import re
import shlex
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from string import Formatter
from typing import Final, TypeAlias

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


_OPENS_CONTEXT: Final = re.compile(r"`|\$[(\['\"]|[<>]\(|\(\(|<<|\$\{(?!\w+\})")
"""What begins a place with quotes of its own: a substitution, arithmetic, a here-document, quotes after a dollar sign."""
_UNDOES: Final = ("\\", "$", "[")
"""Directly before a quoted value: the first of its quotes is no quote, another kind of one, or within a subscript that is computed."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish"})
_READ_AGAIN: Final = frozenset(
    ["eval", "ssh", "su", "runuser", "xargs", "parallel", "watch", "trap", "alias", "declare", "typeset", "let", "unset", "awk", "gawk",
     "sed", "pdsh", "clush", "tmux", "screen", "[["]
)  # fmt: skip
_INTERPRETERS: Final = frozenset({"python", "python3", "perl", "ruby", "node", "php", "lua", "script", "flock", "env"})
_CODE: Final = re.compile(r"-[A-Za-z]*[ceES].*|--(?:command|eval|split-string).*")
_WRAPPED: Final = re.compile(r"--wrap\b.*")


def within_quotes(template: str, names: Collection[str]) -> str | None:
    """The first of the fields `names` whose place in `template` undoes the quoting of its value; None where none does.

    A quoted value is one word of a command only where the shell is not within quotes already: within quotes the two cancel each other,
    after a backslash or a dollar sign the first of them is another one, and substitutions, arithmetic and here-documents read what is
    between them once more. An apostrophe is a quote to a shell, and one that nothing closes reaches over all that comes.
    """
    parts = [(literal, name) for literal, name, _spec, _conversion in Formatter().parse(template)]
    text = "".join(literal + ("\0" if name else "") for literal, name in parts)
    fields_left = [name for _literal, name in parts if name]
    within, escaped, first = "", False, None
    for place, sign in enumerate(text):
        if sign == "\0":
            name = fields_left.pop(0)
            if name in names:
                first = first or name
                if within or escaped or text[:place].endswith(_UNDOES) or _OPENS_CONTEXT.search(text[:place]):
                    return name
        elif within:
            within = "" if sign == within and not escaped else within
        elif sign in "'\"`" and not escaped:
            within = sign
        escaped = sign == "\\" and not escaped and within != "'"
    return first if within else None


def read_again(template: str, names: Collection[str]) -> tuple[str, str] | None:
    """The first of the fields `names` in a `template` that has a command which reads its words once more, and that command; else None.

    `eval`, `sh -c`, `ssh host`, `xargs` and their like take the quotes away and read what is left: a value would run.
    """
    field = next((name for name in fields(template) if name in names), None)
    if field is None:
        return None
    words = [word.strip("'\"`").rpartition("/")[2] for word in re.split(r"[\s;&|()]+", template)]
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        script = after and not after.startswith(("-", "{"))
        code = word in _INTERPRETERS and any(_CODE.fullmatch(one) for one in words[place + 1 :])
        if word in _READ_AGAIN or (word in _SHELLS and not script) or code or _WRAPPED.fullmatch(word):
            return field, word
    piped = re.search(r"\|\s*(?:sudo\s+)?(?:\S*/)?(" + "|".join(sorted(_SHELLS)) + r")\b", template)
    return (field, piped[1]) if piped else None


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
