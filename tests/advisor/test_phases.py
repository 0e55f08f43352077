"""Two of the recorded programs in one run, one after the other: the time of each goes to what it did."""

from collections.abc import Callable
from typing import Final

import pytest

from advisor import phases
from advisor.bottleneck import SHARES
from advisor.frames import Window
from advisor.samples import Span, facts_of, judged
from tests.advisor import runs, windows
from tests.advisor.labelled import ACCEPTED, LABELS, jobs, lasting, often

PAIRS: Final = ("ddp_big", "ddp_comm_bound")
"""Programs of two GPUs."""
IN_A_ROW: Final = tuple((a, b) for a in LABELS for b in LABELS if a != b and (a in PAIRS) == (b in PAIRS))
QUIET: Final = "idle_context"
"""A quiet lead is left out: whether it was start-up, a save or waiting lies before the window. So what follows it is the whole."""
HOW_SAMPLED: Final[dict[str, Callable[[Window], Window]]] = {
    "four samples a second": lambda window: window,
    "one sample a second": lambda window: windows.every(window, 1),
    "a tenth of the samples lost": lambda window: windows.less(windows.every(window, 1), 0.1),
    "a fifth of noise": lambda window: windows.noisy(windows.every(window, 1), 0.2),
    "NVML alone": lambda window: windows.without_profiling(windows.every(window, 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "first_s", "second_s"),
    [
        ("four samples a second", 60, 60), ("one sample a second", 80, 40), ("one sample a second", 40, 80),
        ("one sample a second", 100, 20), ("one sample a second", 20, 100), ("a tenth of the samples lost", 60, 60),
        ("a fifth of noise", 60, 60), ("NVML alone", 60, 60),
    ],
)  # fmt: skip
def test_two_phases_in_one_run_have_the_shares_of_both(how: str, first_s: float, second_s: float) -> None:
    """Each of 242 pairs of programs, one after the other: no share is off by 0.15."""
    alone = jobs(HOW_SAMPLED[how](lasting(120)))
    said = jobs(HOW_SAMPLED[how](runs.one_after_another(lasting(120), IN_A_ROW, first_s, second_s)))
    off = {}
    for first, second in IN_A_ROW:
        part = 0.0 if first == QUIET else first_s / (first_s + second_s)
        row = said[f"{first} > {second}"]
        off[first, second] = max(
            abs(row[f"share_{name}"] - part * alone[first][f"share_{name}"] - (1 - part) * alone[second][f"share_{name}"])
            for name in SHARES
        )

    assert {pair: round(error, 2) for pair, error in off.items() if error >= 0.15} == {}


def test_the_longer_of_two_phases_of_healthy_work_gives_the_label() -> None:
    """Where neither phase has a cause that somebody can remove, it is what most of the time went to."""
    work = ("fp32_train", "launch_graphed", "decode_b1")
    pairs = tuple((a, b) for a in work for b in work if a != b)
    said = jobs(runs.one_after_another(lasting(120), pairs, 80, 40))

    assert {f"{a} > {b}": ACCEPTED[a] for a, b in pairs} == {job: frozenset({row["bottleneck"]}) for job, row in said.items()}


@pytest.mark.parametrize("every_s", [None, 1.0])
def test_one_behaviour_is_not_parted(every_s: float | None) -> None:
    """Steps, epochs and noise come back: no recording by itself has phases, nor under a fifth of noise."""
    for window in (often(120, every_s), windows.noisy(often(120, every_s), 0.2)):
        assert phases.turns(judged(window, facts_of(window), Span())).is_empty()
