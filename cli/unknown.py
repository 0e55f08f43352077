"""Words of a command line that no flag knows."""

import argparse
import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn


def refuse(parser: argparse.ArgumentParser, words: Sequence[str]) -> NoReturn:
    """Ends with exit code 2, naming the first unknown word and the nearest flag of `parser`."""
    word = next((word for word in words if word.startswith("-")), words[0]).partition("=")[0]
    close = difflib.get_close_matches(word, list(parser._option_string_actions), 1)
    parser.error(f"there is no {word}; " + (f"did you mean {close[0]}?" if close else "--help tells what there is."))


def parsed(
    words: Sequence[str], program: str, arguments: Callable[[argparse.ArgumentParser], None], description: str | None = None
) -> argparse.Namespace:
    """What the words say to a verb that stands alone, as in the agent's file; an unknown one ends with exit code 2."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    arguments(parser)
    options, unknown = parser.parse_known_args(words)
    if unknown:
        refuse(parser, unknown)
    return options
