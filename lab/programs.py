"""Small GPU programs with one known bottleneck each, to record and to judge the advisor by.

`python lab/programs.py NAME [--seconds S]` runs one on the visible GPUs (PyTorch is needed; it is no dependency of Fettle).
Each docstring in lab/known/ says what limits the program, as a person who reads its source would.
"""

import argparse
import importlib
import pkgutil
import sys
import time
from pathlib import Path

if not __package__:  # run as a file: the folder that holds `lab` is not on the path
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from lab import known
from lab.loop import PROGRAMS


def load() -> None:
    """Register every program of lab/known/."""
    for module in pkgutil.iter_modules(known.__path__):
        importlib.import_module(f"{known.__name__}.{module.name}")


def _main() -> None:
    load()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=14)
    options = parser.parse_args()
    began = time.monotonic()
    done = PROGRAMS[options.name](options.seconds)
    print(f"{options.name}: {done} steps, {done / (time.monotonic() - began):.2f} a second, start-up counted", file=sys.stderr)


if __name__ == "__main__":
    _main()
