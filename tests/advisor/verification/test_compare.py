"""Verdicts on pairs of recordings, and on what programs report."""

import functools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace as recorded_as

from advisor.rule import Rule, load
from advisor.verification.compare import Comparison, compare
from advisor.verification.stretch import REPORTED_METRICS, Stretch, of_recording
from wire.recording import Recording, read

ROOT: Final = Path(__file__).resolve().parents[3]
LABELS: Final[dict[str, dict[str, Any]]] = json.loads((ROOT / "tests" / "advisor" / "labels.json").read_text())
RULES: Final[dict[str, Rule]] = {rule.id: rule for rule in load()}
FP32: Final = RULES["fp32-without-tensor-cores"]


def recording(name: str) -> Recording:
    """The recording of that name."""
    return read(ROOT / "recordings" / f"{name}.jsonl.gz")


@functools.cache
def stretch(name: str) -> Stretch:
    """The steady part of a recording."""
    return of_recording(recording(name))


def verdict(rule: str, before: str, after: str) -> Comparison:
    """What a pair of recordings says of the advice of `rule`."""
    return compare(RULES[rule], [stretch(before)], [stretch(after)])


def reporting(of: Stretch, told: dict[str, float], noise: float = 0.02) -> Stretch:
    """The stretch as that of a program that reports `told`, with some noise on it."""
    rng = np.random.default_rng(5)
    columns = [
        pl.Series(name, told[name] * (1 + noise * rng.standard_normal(of.samples.height)))
        for name in REPORTED_METRICS
        if name in told
    ]
    return replace(of, samples=of.samples.with_columns(columns))


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        ("fp32-without-tensor-cores", "fp32_train", "bf16_train"),
        ("launch-bound-small-kernels", "launch_bound", "launch_graphed"),
        ("dataloader-too-few-workers", "loader_starved", "loader_ok"),
    ],
)
def test_pairs_of_recordings_whose_advice_was_followed_say_helped_with_about_the_printed_ratio(
    rule: str, before: str, after: str
) -> None:
    """Their programs printed the throughput: by the rules' own measures the ratio is that, within a fifth."""
    found = verdict(rule, before, after)
    printed = LABELS[after]["items_per_s"] / LABELS[before]["items_per_s"]

    assert found.verdict == "helped"
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(printed, rel=0.2)
    assert found.ratio.low <= found.ratio.value <= found.ratio.high
    assert found.ratio.p < 0.01
    assert found.is_estimate
    assert not found.rollback


def test_fp32_to_bf16_helped_nearly_eight_times() -> None:
    """735M parameters: 10.7 and 85.1 k tokens per second, 7.98 times."""
    found = verdict("fp32-without-tensor-cores", "fp32_train", "bf16_train")

    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(7.98, rel=0.05)
    assert "8.0" in found.reason.english()


def test_reported_throughput_goes_before_the_rules_own_measure() -> None:
    """What the programs printed, as if they had told it: 7.98 times, and no estimate."""
    told = [{"tokens_per_s": LABELS[name]["items_per_s"]} for name in ("fp32_train", "bf16_train")]
    found = compare(FP32, [reporting(stretch("fp32_train"), told[0])], [reporting(stretch("bf16_train"), told[1])])

    assert found.verdict == "helped"
    assert found.measure is not None
    assert found.measure.id == "tokens_per_s"
    assert not found.is_estimate
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(7.98, rel=0.02)


@pytest.mark.parametrize("name", ["fp32_train", "bf16_train", "vit_compiled"])
def test_the_same_recording_twice_is_no_effect(name: str) -> None:
    """Not that it cannot be told: the interval lies within three per cent."""
    found = verdict("fp32-without-tensor-cores", name, name)

    assert found.verdict == "no_effect"
    assert found.ratio is not None
    assert found.ratio.value == 1.0


@pytest.mark.parametrize("name", ["fp32_train", "bf16_train", "loader_ok", "vit_compiled", "launch_bound"])
def test_two_halves_of_one_program_are_never_an_effect(name: str) -> None:
    """Other readings of the same, six seconds each: neither half is better."""
    one = stretch(name)
    half = one.samples.height // 2
    before, after = (replace(one, samples=part) for part in (one.samples[:half], one.samples[half:]))

    assert compare(FP32, [before], [after]).verdict in ("no_effect", "cannot_tell")


def test_bf16_to_fp32_is_worse_and_prints_the_rollback() -> None:
    """An eighth of the speed, and the rule's own words on how to go back."""
    found = verdict("fp32-without-tensor-cores", "bf16_train", "fp32_train")

    assert found.verdict == "worse"
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1 / 8, rel=0.05)
    assert found.rollback == FP32.rollback


def test_the_time_of_a_step_counts_the_other_way() -> None:
    """Half the time is twice the speed."""
    one = stretch("bf16_train")
    found = compare(FP32, [reporting(one, {"step_time_s": 0.5})], [reporting(one, {"step_time_s": 0.25})])

    assert found.verdict == "helped"
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(2.0, rel=0.02)
    assert found.before == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(
    ("rule", "before", "after", "why"),
    [
        ("fp32-without-tensor-cores", "fp32_train", "ddp_big", "Not as many GPUs: 1 before, 2 after."),
        ("gpu-co-tenant-contention", "noisy_neighbour", "bf16_train", "on one side only"),
        ("gpu-memory-leak", "leak", "leak", "reports no tokens"),
        ("checkpoint-stall", "ckpt_stall", "ckpt_stall", "vary too much"),
    ],
)
def test_what_is_not_alike_or_not_measured_cannot_be_told(rule: str, before: str, after: str, why: str) -> None:
    """With the reason."""
    found = verdict(rule, before, after)

    assert found.verdict == "cannot_tell"
    assert why in found.reason.english()


def test_other_gpus_cannot_be_told() -> None:
    """The same program on another model."""
    found = compare(FP32, [stretch("fp32_train")], [replace(stretch("bf16_train"), gpu_model="NVIDIA H100 80GB HBM3")])

    assert found.verdict == "cannot_tell"
    assert found.reason.english() == "Not the same GPUs: NVIDIA H200 before, NVIDIA H100 80GB HBM3 after."


def test_a_run_that_turned_to_something_else_cannot_be_told() -> None:
    """Training, and in the run after training and then an idle wait: which of the two is what was before?"""
    both = recording("bf16_train")
    rest = recording("idle_context")
    last = both.samples[-1].t
    pid = next(iter(both.samples[-8].gpus[0]["pids"]))
    later = tuple(
        recorded_as(
            sample,
            t=sample.t + last,
            gpus=tuple({**gpu, "pids": {pid: 20 << 30}} for gpu in sample.gpus),
            processes=tuple({**process, "pid": int(pid)} for process in sample.processes[:1]),
        )
        for sample in rest.samples
        if sample.t > 4
    )
    joined = recorded_as(both, samples=both.samples[:-6] + later)
    after = of_recording(joined)
    found = compare(FP32, [stretch("bf16_train")], [after])

    assert len(after.phases) > 1
    assert found.verdict == "cannot_tell"
    assert "phases" in found.reason.english()


def test_training_beside_training_and_evaluation_by_turns_cannot_be_told() -> None:
    """The readings differ by more than any verdict could stand on."""
    found = verdict("fp32-without-tensor-cores", "bf16_train", "train_eval_phases")

    assert found.verdict == "cannot_tell"


def test_too_short_cannot_be_told() -> None:
    """Three seconds after the change are none."""
    one = stretch("bf16_train")
    found = compare(FP32, [stretch("fp32_train")], [replace(one, samples=one.samples[:12])])

    assert found.verdict == "cannot_tell"
    assert found.reason.english().startswith("Too short to tell")


def test_a_side_without_runs_cannot_be_told() -> None:
    """Nothing ran after the change."""
    assert compare(FP32, [stretch("fp32_train")], []).verdict == "cannot_tell"


def test_a_step_of_twice_the_batch_cannot_be_told_by_its_time() -> None:
    """By samples per second it can."""
    before = replace(reporting(stretch("bf16_train"), {"step_time_s": 0.5}), told={"flag.batch-size": "8"})
    after = replace(reporting(stretch("bf16_train"), {"step_time_s": 0.8}), told={"flag.batch-size": "16"})
    found = compare(FP32, [before], [after])

    assert found.verdict == "cannot_tell"
    assert "batch-size" in found.reason.english()

    sides = [
        replace(reporting(stretch("bf16_train"), {"step_time_s": step, "samples_per_s": samples}), told=side.told)
        for step, samples, side in ((0.5, 16.0, before), (0.8, 20.0, after))
    ]
    assert compare(FP32, sides[:1], sides[1:]).verdict == "helped"


def test_unreported_is_absent_and_not_zero() -> None:
    """A recording without reported steps has nulls, and none of the reported measures is taken."""
    assert stretch("fp32_train").samples.select(pl.col(REPORTED_METRICS).null_count()).row(0) == (
        stretch("fp32_train").samples.height,
    ) * len(REPORTED_METRICS)
