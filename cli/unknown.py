"""Words of a command line that no flag knows."""

import argparse
import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn

from cli.language import _
from cli.parser import parser as speaking


def refuse(parser: argparse.ArgumentParser, words: Sequence[str]) -> NoReturn:
    """Ends with exit code 2, naming the first unknown word and the nearest flag of `parser`."""
    word = next((word for word in words if word.startswith("-")), words[0]).partition("=")[0]
    close = difflib.get_close_matches(word, list(parser._option_string_actions), 1)
    says = _("there is no {word}; did you mean {close}?") if close else _("there is no {word}; --help tells what there is.")
    parser.error(says.format(word=word, close=close[0] if close else ""))


def parsed(
    words: Sequence[str], program: str, arguments: Callable[[argparse.ArgumentParser], None], description: str | None = None
) -> argparse.Namespace:
    """What the words say to a verb that stands alone, as in the agent's file; an unknown one ends with exit code 2."""
    parser = speaking(program, _(description or "") or None)
    arguments(parser)
    options, unknown = parser.parse_known_args(words)
    if unknown:
        refuse(parser, unknown)
    return options
