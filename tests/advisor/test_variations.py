"""What is said of a recording must not hang on how it was sampled."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from advisor.recorded import judge
from tests.advisor import variations
from wire import recording
from wire.recording import Recording

HERE = Path(__file__).parent
RECORDINGS = HERE.parent.parent / "recordings"
LABELS: dict[str, dict[str, Any]] = json.loads((HERE / "labels.json").read_text())
Change: TypeAlias = Callable[[Recording], Recording]

VARIATIONS: dict[str, Change] = {
    "as one-second means": lambda whole: variations.means(whole, 1.0),
    "with a tenth of the samples lost": lambda whole: variations.dropped(whole, 0.1),
    "with a third of the samples lost": lambda whole: variations.dropped(whole, 0.3),
    "with a fifth of noise": lambda whole: variations.noisy(whole, 0.2),
    "with noise on one-second means": lambda whole: variations.noisy(variations.means(whole, 1.0), 0.2, seed=3),
    "at another time of day": lambda whole: variations.shifted(whole, 1e9),
    "with its second half twice": variations.doubled,
    "with its second half twice, as one-second means": lambda whole: variations.means(variations.doubled(whole), 1.0),
    "on four times the GPUs": lambda whole: variations.on_more_gpus(whole, 4),
    "on GPUs numbered from three": lambda whole: variations.numbered_from(whole, 3),
}

OF_TWO = {"with noise on one-second means", "with its second half twice, as one-second means"}
"""Made of two others; among the slow tests."""


def load(name: str) -> Recording:
    """One recording of the repository."""
    return recording.read(RECORDINGS / f"{name}.jsonl.gz")


def accepted(name: str) -> list[str]:
    """The labels that a person accepts."""
    label = LABELS[name]
    return list(label.get("bottleneck_any", [label.get("bottleneck")]))


@pytest.mark.parametrize("name", LABELS)
@pytest.mark.parametrize("variation", [pytest.param(one, marks=pytest.mark.slow if one in OF_TWO else ()) for one in VARIATIONS])
def test_it_says_the_same(variation: str, name: str) -> None:
    """Same bottleneck, same expected rules, and healthy jobs still left alone."""
    label = LABELS[name]
    judgement = judge(VARIATIONS[variation](load(name)))
    fired = {finding.rule for finding in judgement.evaluation.findings}

    assert judgement.diagnosis.bottleneck in accepted(name)
    assert set(label.get("expect", [])) <= fired
    assert not label.get("expect_any") or fired & set(label["expect_any"])
    if label.get("expect") == []:
        assert [f.rule for f in judgement.evaluation.findings if f.severity in ("warn", "critical")] == []


@pytest.mark.parametrize("name", [name for name in LABELS if name not in ("ddp_comm_bound", "h2d_pageable")])
def test_it_keeps_the_label_without_profiling_counters_at_lower_confidence(name: str) -> None:
    """NVML alone tells all but traffic between GPUs and over PCIe, and is trusted less."""
    judgement = judge(variations.without_gpm(load(name)))

    assert judgement.diagnosis.bottleneck in accepted(name)
    assert judgement.diagnosis.confidence != "high"


def test_low_power_alone_is_a_guess() -> None:
    """Without profiling counters few active SMs look like copies: low confidence."""
    assert judge(variations.without_gpm(load("launch_graphed"))).diagnosis.confidence == "low"


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("name", ["bf16_train", "loader_starved", "ddp_big", "ddp_comm_bound"])
def test_one_idle_gpu_of_eight_is_found_and_changes_no_label(name: str, held: bool) -> None:
    """The others are judged as before; a warning only where the idle one is held."""
    whole = variations.on_more_gpus(load(name), 8 // len(load(name).header.gpus))
    judgement = judge(variations.with_one_idle(whole, 5, held=held))
    (partial,) = [one for one in judgement.evaluation.findings if one.rule == "job-partial-gpu-use"]

    assert judgement.diagnosis.bottleneck in accepted(name)
    assert partial.summary.english().startswith("7 of 8 GPUs worked")
    assert partial.severity == ("warn" if held else "advice")


@pytest.mark.parametrize("name", ["ddp_comm_bound", "h2d_pageable"])
def test_it_does_not_invent_traffic_that_nobody_measured(name: str) -> None:
    """Without the counters neither copies nor communication can be named."""
    judgement = judge(variations.without_gpm(load(name)))

    assert judgement.diagnosis.confidence != "high"
    assert judgement.diagnosis.shares["copy"] == 0
    assert judgement.diagnosis.shares["communication"] == 0


@pytest.mark.parametrize("name", LABELS)
def test_it_reads_a_bare_header(name: str) -> None:
    """Sizes that the header leaves out come from the samples."""
    assert judge(variations.without_header(load(name))).diagnosis.bottleneck in accepted(name)


@pytest.mark.parametrize("name", LABELS)
def test_it_survives_processes_that_cannot_be_read(name: str) -> None:
    """Less is known then, and said with less confidence."""
    judgement = judge(variations.without_processes(load(name)))

    assert judgement.diagnosis.bottleneck is not None
    assert judgement.diagnosis.confidence != "high"


@pytest.mark.parametrize("name", LABELS)
def test_it_survives_ten_second_samples(name: str) -> None:
    """Too few samples lower the confidence or leave the label open, never break."""
    judgement = judge(variations.means(load(name), 10.0))

    assert judgement.diagnosis.confidence != "high"
    assert judgement.diagnosis.bottleneck or judgement.note
