"""The kernel's lists of CPUs."""

from typing import Final

_MAX: Final = 1 << 16


def ranges(text: str) -> set[int]:
    """The numbers of a list such as `0-3,8`; ValueError for anything else."""
    found: set[int] = set()
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            if int(last or first) >= _MAX:
                raise ValueError(part)
            found.update(range(int(first), int(last or first) + 1))
    return found
