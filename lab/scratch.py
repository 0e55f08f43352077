"""Where programs of the lab put files: a folder that the runner names and removes."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VARIABLES = ("LAB_DISK", "LAB_MEMORY")
PLACES = ("/var/tmp", "/dev/shm")
"""What lies on disk (/tmp need not) and in memory, on Linux."""


def place(*, memory: bool) -> str | None:
    """Where to make a folder; None: where Python makes them."""
    return PLACES[memory] if Path(PLACES[memory]).is_dir() else None


def folder(*, memory: bool = False) -> Path:
    """A folder on disk or in the host's memory; without a runner, one of our own that goes with the program."""
    named = os.environ.get(VARIABLES[memory])
    if named:
        return Path(named)
    made = tempfile.mkdtemp(prefix="fettle-lab-", dir=place(memory=memory))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
