"""What a recording holds of its processes in words reaches the rules."""

from pathlib import Path

import pytest
from msgspec import structs

from advisor.frames import from_recording
from advisor.recorded import judge
from wire import recording
from wire.recording import Recording

ROOT = Path(__file__).resolve().parent.parent.parent


def worded(name: str, labels: object) -> Recording:
    """The recording, every process of its first samples with these labels."""
    known = recording.read(ROOT / "recordings" / f"{name}.jsonl.gz")
    samples = tuple(
        structs.replace(one, processes=tuple({**process, "labels": labels} for process in one.processes)) if number < 40 else one
        for number, one in enumerate(known.samples)
    )
    return structs.replace(known, samples=samples)


def test_the_change_is_that_of_the_launcher_in_the_recording() -> None:
    """DeepSpeed has its JSON, and nobody is told to edit a loop that is not theirs."""
    plain = judge(recording.read(ROOT / "recordings" / "fp32_train.jsonl.gz")).evaluation.findings
    told = judge(worded("fp32_train", {"launcher": "deepspeed", "torch": "2.9.1+cu128"})).evaluation.findings
    changes = {name: [step.text for one in found if one.rule == "fp32-without-tensor-cores" for step in one.change] for name, found in (("plain", plain), ("told", told))}  # fmt: skip

    assert not any("# DeepSpeed" in text for text in changes["plain"])
    assert any("# DeepSpeed" in text for text in changes["told"])


@pytest.mark.parametrize("labels", ["x", 7, ["launcher"], {"launcher": 7}, {"password": "x"}, {"launcher": "x" * 10_000}])
def test_words_that_are_none_are_left_out(labels: object) -> None:
    """A recording comes from anybody."""
    assert all(not words for words in from_recording(worded("fp32_train", labels)).labels.values())
