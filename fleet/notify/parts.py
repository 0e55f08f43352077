"""Cuts a message for targets that take little at a time: between lines, never inside a step to take that fits a part whole."""

from collections.abc import Callable, Iterator
from itertools import groupby

from fleet.notify.plain import INDENT


def split(text: str, fits: Callable[[str], bool]) -> list[str]:
    """The text in pieces that fit, in order; nothing is left out. `fits` must hold for a single character.

    Lines of code stay together where they fit a piece; a line that fits none is cut, at a space where there is one.
    """
    pieces: list[str] = []
    now = ""
    for block in _blocks(text):
        more = f"{now}\n{block}" if now else block
        if fits(more):
            now = more
            continue
        if now.strip():
            pieces.append(now)
        now = ""
        for line in [block] if fits(block) else block.split("\n"):
            for part in _cut(line, fits):
                more = f"{now}\n{part}" if now else part
                if now and not fits(more):
                    pieces.append(now)
                    more = part
                now = more
    return [piece.strip("\n") for piece in [*pieces, now] if piece.strip()]


def longest(text: str, fits: Callable[[str], bool]) -> str:
    """The text, or as much of its beginning as fits, with a sign that it goes on; "" where nothing does."""
    if fits(text):
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(f"{text[:middle]}…") else (low, middle - 1)
    return f"{text[:low].rstrip()}…" if low else ""


def _blocks(text: str) -> Iterator[str]:
    """Lines, and as one the lines of code that follow each other."""
    for is_code, lines in groupby(text.split("\n"), key=lambda line: line.startswith(INDENT)):
        if is_code:
            yield "\n".join(lines)
        else:
            yield from lines


def _cut(line: str, fits: Callable[[str], bool]) -> list[str]:
    """A line in pieces that fit; those of a line of code are lines of code."""
    indent = INDENT if line.startswith(INDENT) else ""
    pieces = []
    rest = line
    while not fits(rest):
        low, high = len(indent) + 1, len(rest) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(rest[:middle]) else (low, middle - 1)
        space = rest.rfind(" ", len(indent) + 1, low)
        end = space if space > low // 2 else low
        pieces.append(rest[:end])
        rest = indent + rest[end:].lstrip(" ")
        if len(rest) <= len(indent) + 1:
            break
    return [*pieces, rest]
