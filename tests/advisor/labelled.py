"""The labelled recordings, what each does going on for minutes, and what is said of each of its jobs."""

import functools
import json
from pathlib import Path
from typing import Any, Final

import polars as pl

from advisor.bottleneck import SHARES
from advisor.features import Frames, features
from advisor.frames import Window
from tests.advisor import windows

LABELS: Final[dict[str, dict[str, Any]]] = json.loads((Path(__file__).parent / "labels.json").read_text())
ACCEPTED: Final = {name: frozenset(label.get("bottleneck_any", [label.get("bottleneck")])) for name, label in LABELS.items()}
SEEDS: Final = 8


@functools.cache
def lasting(seconds: float) -> Window:
    """The recordings' steady parts, over and over."""
    return windows.lasting(windows.steady(windows.recorded(tuple(LABELS))), seconds)


def often(seconds: float, every_s: float | None = None) -> Window:
    """The same SEEDS times, for what is done to them at random."""
    window = lasting(seconds)
    return windows.copies(windows.every(window, every_s) if every_s else window, SEEDS)


def jobs(window: Window, **how: Any) -> dict[str, dict[str, Any]]:
    """What is said of each job, and that it is said in the proper form."""
    frames = features(window, **how)
    proper(frames)
    assert set(frames.job["job"]) == set(window.facts["job"])
    return {row["job"]: row for row in frames.job.iter_rows(named=True)}


def proper(frames: Frames) -> None:
    """One label of those that there are for each GPU and job that is evaluated, shares between 0 and 1 that sum to 1."""
    for frame in (frames.gpu, frames.job):
        told = frame.filter("evaluated")
        shares = told.select(f"share_{name}" for name in SHARES)
        assert set(told["bottleneck"]) <= set(SHARES)
        assert set(told["confidence"]) <= {"high", "medium", "low"}
        assert shares.null_count().sum_horizontal().item() == 0
        assert shares.select(pl.all_horizontal(pl.all().is_between(0, 1 + 1e-9)).all()).item()
        assert (shares.sum_horizontal() - 1).abs().max() < 1e-9  # type: ignore[operator]
