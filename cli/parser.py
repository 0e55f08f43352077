"""argparse in the reader's language: its own words from our catalogue, and help whose lines break where Chinese may.

argparse takes its words from a function of its module, which asks gettext's domain of the whole process; ours is another file.
"""

import argparse
import re
from collections.abc import Iterator
from typing import Any, Final

from cli import language
from cli.language import gettext_noop, width

WORDS: Final = (
    gettext_noop("usage: "),
    gettext_noop("positional arguments"),
    gettext_noop("options"),
    gettext_noop("show this help message and exit"),
    gettext_noop("%(heading)s:"),
    gettext_noop("%(prog)s: error: %(message)s\n"),
    gettext_noop("argument %(argument_name)s: %(message)s"),
    gettext_noop("the following arguments are required: %s"),
    gettext_noop("one of the arguments %s is required"),
    gettext_noop("not allowed with argument %s"),
    gettext_noop("expected one argument"),
    gettext_noop("expected at most one argument"),
    gettext_noop("expected at least one argument"),
    gettext_noop("ignored explicit argument %r"),
    gettext_noop("invalid %(type)s value: %(value)r"),
    gettext_noop("invalid choice: %(value)r (choose from %(choices)s)"),
    gettext_noop("unknown parser %(parser_name)r (choices: %(choices)s)"),
    gettext_noop("ambiguous option: %(option)s could match %(matches)s"),
    gettext_noop("unrecognized arguments: %s"),
    gettext_noop("unexpected option string: %s"),
)
"""What argparse says to who types: its complaints to who writes a parser stay English."""
_PIECE: Final = re.compile(
    r"[\u2e80-\u9fff\uff00-\uffef][\u3001-\u3011\uff01-\uff1f”’]*|[^\s\u2e80-\u9fff\uff00-\uffef]+[\u3001-\u3011\uff01-\uff1f”’]*|\s+"
)
"""What a line may break after: a Chinese character, or a word; with the marks that no line begins with."""


def speak() -> None:
    """Have argparse say its own words in the reader's language."""
    setattr(argparse, "_", _said)  # noqa: B010 - its stubs do not tell of it


def _said(text: str) -> str:
    return language.catalogue().gettext(text)


class Help(argparse.HelpFormatter):
    """Help whose Chinese breaks between characters, each two columns wide; English is wrapped as ever."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        text = self._whitespace_matcher.sub(" ", text).strip()
        return super()._split_lines(text, width) if language.width(text) == len(text) else list(wrapped(text, width))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if language.width(text) == len(text):
            return super()._fill_text(text, width, indent)
        text = self._whitespace_matcher.sub(" ", text).strip()
        return "\n".join(indent + line for line in wrapped(text, width - len(indent)))


class RawHelp(Help):
    """As Help, with descriptions and epilogs as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "".join(indent + line for line in text.splitlines(keepends=True))


def wrapped(text: str, columns: int) -> Iterator[str]:
    """The lines of `text`, each at most `columns` wide on a terminal where a word does not take more."""
    line = ""
    for piece in _PIECE.findall(text):
        if line and width((line + piece).rstrip()) > columns:
            yield line.rstrip()
            line = ""
        line += piece if line or not piece.isspace() else ""
    if line.strip():
        yield line.rstrip()


def parser(program: str, description: str | None = None, **more: Any) -> argparse.ArgumentParser:
    """A parser that speaks the reader's language."""
    speak()
    return argparse.ArgumentParser(**{"prog": program, "description": description, "formatter_class": Help, **more})
