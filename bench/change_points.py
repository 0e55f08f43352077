"""How often a change point is found in noise, and how often one that is there.

    python bench/change_points.py

Runs of families are invented: step times with noise of 2 %, normal, with heavy tails (Student's t of 3 degrees), or normal with one run
in twenty that is 20 % off. A false alarm is a family without a change in which one is found; a hit is a change that the newest four runs
have, found at its run or the one beside it. docs/explanation/baselines.md has the figures.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np

from advisor.course import course

SPREAD: Final = 0.02
NEWEST: Final = 4
NOISES: Final = ("normal", "heavy", "outliers")
RATIOS: Final = (1.05, 1.06, 1.08, 1.10, 1.20)
RUNS: Final = (8, 12, 20, 40, 60)
_DAY_S: Final = 86_400.0


def main(argv: list[str] | None = None) -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", type=int, default=2000)
    count = parser.parse_args(argv).families
    print("false alarms" + "".join(f"{noise:>10}" for noise in NOISES))
    for runs in RUNS:
        print(f"{runs:>7} runs" + "".join(f"{false_alarms(noise, runs, count):10.1%}" for noise in NOISES))
    print("hits        " + "".join(f"{ratio:>10.2f}" for ratio in RATIOS))
    for runs in RUNS:
        print(f"{runs:>7} runs" + "".join(f"{hits(ratio, runs, count):10.1%}" for ratio in RATIOS))
    return 0


def false_alarms(noise: str, runs: int, families: int) -> float:
    """The share of families without a change in which one is found."""
    rng = np.random.default_rng(runs)
    return sum(bool(_changes(_noise(rng, noise, runs))) for _ in range(families)) / families


def hits(ratio: float, runs: int, families: int) -> float:
    """The share of families in which the change of the newest runs is found, at most one run off."""
    rng = np.random.default_rng(runs)
    found = 0
    for _ in range(families):
        logs = _noise(rng, "normal", runs)
        logs[runs - NEWEST :] += np.log(ratio)
        found += any(abs(place - (runs - NEWEST)) <= 1 for place in _changes(logs))
    return found / families


def _changes(logs: Any) -> tuple[int, ...]:
    return course(tuple(place * _DAY_S for place in range(len(logs))), tuple(map(float, np.exp(logs)))).changes


def _noise(rng: Any, noise: str, runs: int) -> Any:
    if noise == "heavy":
        return SPREAD * rng.standard_t(3, runs)
    logs = rng.normal(0, SPREAD, runs)
    if noise == "outliers":
        logs[rng.random(runs) < 0.05] += 0.2
    return logs


if __name__ == "__main__":
    sys.exit(main())
