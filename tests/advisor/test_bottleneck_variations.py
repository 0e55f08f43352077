"""Every labelled recording as other agents, nodes and cards would have told of it: which label must come out, and how sure.

The recordings are short. What they do in their steady part goes on here for minutes, as a window of the fleet shows it; all of
them are judged in one window. Where a variation takes away what the label rests on, LOST says what is then expected, and why.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from advisor.features import features
from advisor.frames import Window
from tests.advisor import other_cards, runs, windows
from tests.advisor.labelled import ACCEPTED, LABELS, jobs, lasting, often

PACED: Final = frozenset(("launch_bound", "near_oom", "loader_starved", "disk_loader"))
"""Programs whose host works on while the GPU does."""


def ranks(count: int, nodes: int) -> Window:
    """Every recording on `count` GPUs."""
    return runs.on_more_gpus(lasting(60), count, nodes)


VARIATIONS: Final[dict[str, Callable[[], Window]]] = {
    "four samples a second": lambda: lasting(120),
    "one sample a second": lambda: windows.every(lasting(120), 1),
    "a sample in five seconds": lambda: windows.every(lasting(300), 5),
    "a sample in ten seconds": lambda: windows.every(lasting(300), 10),
    "a sample in ten seconds, begun 2.5 s later": lambda: windows.every(lasting(300), 10, 2.5),
    "a sample in ten seconds, begun 5 s later": lambda: windows.every(lasting(300), 10, 5),
    "a sample in ten seconds, begun 7.5 s later": lambda: windows.every(lasting(300), 10, 7.5),
    "a tenth of the samples lost": lambda: windows.less(often(120), 0.1),
    "a tenth of the samples lost, five seconds in a row": lambda: windows.less(often(120), 0.1, 5),
    "a tenth of one-second samples lost, ten in a row": lambda: windows.less(often(120, 1), 0.1, 10),
    "a tenth of ten-second samples lost": lambda: windows.less(often(300, 10), 0.1),
    "a fifth of noise": lambda: windows.noisy(often(120), 0.2),
    "a fifth of noise on one-second samples": lambda: windows.noisy(often(120, 1), 0.2),
    "a fifth of noise on ten-second samples": lambda: windows.noisy(often(300, 10), 0.2),
    "noise, loss and ten-second samples": lambda: windows.noisy(windows.less(often(300, 10), 0.1), 0.2),
    "samples up to a fifth of their period early or late": lambda: windows.at_unsteady_times(often(120)),
    "polled twice as often": lambda: windows.twice_as_often(lasting(120)),
    "a card that tells no constants": lambda: windows.of_unknown_card(lasting(120)),
    "one of the GPUs told of": lambda: windows.seen_in_part(lasting(120)),
    **{f"{count} GPUs on {nodes} nodes": functools.partial(ranks, count, nodes) for count in (2, 4, 8) for nodes in (1, 2)},
    "NVML alone": lambda: windows.without_profiling(lasting(120)),
    "NVML alone, one sample a second": lambda: windows.without_profiling(windows.every(lasting(120), 1)),
    "NVML alone, a sample in ten seconds": lambda: windows.without_profiling(windows.every(lasting(300), 10)),
    "NVML alone, a fifth of noise": lambda: windows.noisy(windows.without_profiling(often(120)), 0.2),
    "NVML alone, a tenth of the samples lost": lambda: windows.less(windows.without_profiling(often(120)), 0.1),
}

LOST: Final[dict[str, dict[str, tuple[frozenset[str], str]]]] = {
    "NVML alone": {
        "ddp_comm_bound": (
            frozenset({"compute"}),
            "Traffic between GPUs has no counter there; a collective that waits keeps the GPU as busy as matrix products do.",
        ),
        "h2d_pageable": (
            frozenset({"launch"}),
            "PCIe traffic has no counter there; what is seen is a host that works while the GPU waits.",
        ),
    }
}
"""By how a variation's name begins: recordings of which it takes away what the label rests on, what is said then at low confidence."""
SURENESS: Final = {"NVML alone": "medium"}
"""By how a variation's name begins: the confidence of all others; else it is high."""
GUESSED: Final[dict[str, dict[str, str]]] = {
    "NVML alone": {"launch_graphed": "Low power alone tells few active SMs from copies no better."}
}
"""By how a variation's name begins: recordings whose label holds, but at low confidence."""


def by_start(table: Mapping[str, Any], variation: str, default: Any) -> Any:
    """The entry whose key the name begins with."""
    return next((value for key, value in table.items() if variation.startswith(key)), default)


@pytest.mark.parametrize("variation", VARIATIONS)
def test_each_recording_keeps_its_label_as_surely_as_its_readings_allow(variation: str) -> None:
    """Of every recording, at every seed, the label of a person: at high confidence with all counters, at medium without profiling.

    Where what the label rests on is gone, what LOST says, and where it could as well be another, the label, both at low confidence.
    """
    window = VARIATIONS[variation]()
    lost, guessed, usual = (
        by_start(table, variation, default) for table, default in ((LOST, {}), (GUESSED, {}), (SURENESS, "high"))
    )
    wrong, unsure = {}, {}
    for job, row in jobs(window).items():
        name = job.split("#")[0]
        if row["bottleneck"] not in (lost[name][0] if name in lost else ACCEPTED[name]):
            wrong[job] = row["bottleneck"]
        if row["confidence"] != ("low" if name in lost or name in guessed else usual):
            unsure[job] = row["confidence"]

    assert (wrong, unsure) == ({}, {})
    assert window.facts["job"].str.split("#").list.first().n_unique() == len(LABELS)


@pytest.mark.parametrize("card", other_cards.OTHERS)
def test_another_card_gets_the_label_of_its_own_roofline(card: str) -> None:
    """What a program is bound by follows from its operations, its bytes and the card's own peaks."""
    own = jobs(lasting(60))
    said = jobs(other_cards.on_card(lasting(60), other_cards.OTHERS[card], PACED), min_samples=10)
    allowed = {name: other_cards.expected(own[name], other_cards.OTHERS[card], paced=name in PACED) for name in LABELS}

    assert {name: row["bottleneck"] for name, row in said.items() if row["bottleneck"] not in allowed[name]} == {}
    assert said.keys() == LABELS.keys()
    assert sum(len(labels) == 1 for labels in allowed.values()) >= 13  # the others are near a border


def test_a_slower_memory_turns_training_into_waiting_for_memory() -> None:
    """Where a card's ridge point is twice the H200's, what computed there waits for memory: the table's L4 against its H200."""
    said = jobs(other_cards.on_card(lasting(60), other_cards.OTHERS["L4"], PACED), min_samples=10)

    assert {name: said[name]["bottleneck"] for name in ("bf16_train", "ddp_big", "vit_compiled")} == dict.fromkeys(
        ("bf16_train", "ddp_big", "vit_compiled"), "memory_bandwidth"
    )


def test_nothing_is_compared_with_peaks_that_a_card_does_not_tell() -> None:
    """Activities are shares of its own peaks, whatever these are; shares of clocks, memory and power limits are not known."""
    frames = features(windows.of_unknown_card(lasting(120)))

    for name in ("sm_clock_ratio", "sm_clock_p95_ratio", "mem_clock_p95_ratio", "power_limit_ratio", "mem_used_share"):
        assert frames.gpu[name].null_count() == frames.gpu.height, name
