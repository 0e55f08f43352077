"""Where programs of the lab put files: a folder that the runner names and removes."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

VARIABLE = "LAB_DISK"
DISK = "/var/tmp"
"""What lies on disk on Linux; /tmp need not."""


def place() -> str | None:
    """Where to make a folder; None: where Python makes them."""
    return DISK if Path(DISK).is_dir() else None


def folder() -> Path:
    """A folder on disk; without a runner, one of our own that goes with the program."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    made = tempfile.mkdtemp(prefix="fettle-lab-", dir=place())
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)
