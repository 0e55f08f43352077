"""Small GPU programs: with one known bottleneck each (lab/known/), and before and after a change (lab/changes/).

`python lab/programs.py NAME [--seconds S]` runs one on the visible GPUs (PyTorch is needed; it is no dependency of Fettle).
Each docstring says what limits the program, as a person who reads its source would. What has measured its speed says so in one
line of JSON on stdout.
"""

import argparse
import importlib
import json
import pkgutil
import sys
import time
from pathlib import Path

if not __package__:  # run as a file: the folder that holds `lab` is not on the path
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from lab import changes, known
from lab.loop import PROGRAMS, Measured


def load() -> None:
    """Register every program of lab/known/ and lab/changes/."""
    for package in (known, changes):
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")


def _setting(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    return name, int(value)


def _main() -> None:
    load()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=14)
    parser.add_argument("--set", type=_setting, action="append", default=[], metavar="NAME=N", help="what the advice said of it")
    options = parser.parse_args()
    began = time.monotonic()
    done = PROGRAMS[options.name](options.seconds, **dict(options.set))
    if isinstance(done, Measured):
        print(json.dumps({"program": options.name, **done.as_json()}), flush=True)
        return
    print(f"{options.name}: {done} steps, {done / (time.monotonic() - began):.2f} a second, start-up counted", file=sys.stderr)


if __name__ == "__main__":
    _main()
