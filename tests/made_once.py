"""What one worker of a test run makes, and the others take as it is."""

import fcntl
from collections.abc import Callable
from pathlib import Path
from typing import Final

_folders: Final[list[Path]] = []
"""The folder that the workers of this run share, once it is known."""


def share(folder: Path) -> None:
    """Make things once in `folder`, the same for every worker of this run."""
    _folders[:] = [folder]


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """The file `name` that `make` writes for whoever asks first; others wait for it."""
    (folder,) = _folders
    made = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            part = folder / f"{name}.part"
            make(part)
            part.rename(made)
    return made
