"""`judge(recording)`: the advice on one recording, as `fettle advise` and `fettle run` print it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

import polars as pl

from advisor import memory_split
from advisor.beside import of_window, with_more
from advisor.cost import cost_a_day
from advisor.diagnosis import Diagnosis, diagnose
from advisor.engine import Evaluation, evaluate, wanted
from advisor.features import features
from advisor.finding import as_json
from advisor.frames import from_recording
from advisor.kinds import kind
from advisor.planned import READS
from advisor.rule import load
from advisor.text import _
from wire.recording import Recording

MIN_SAMPLES: Final = 2
MIN_COVERAGE: Final = 0.5
"""A recording is short and cannot be waited for: with few samples its confidence is lowered instead of saying nothing."""
MIN_S: Final = 3.0
"""Less than that is the end of a program as likely as its work: processes let go of workers and memory for 1 to 2 s."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of a recording. `note` explains in words where there is no bottleneck to name; `profile`: what a profile added."""

    recording: str
    diagnosis: Diagnosis
    evaluation: Evaluation
    window_s: float
    note: str | None
    profile: Mapping[str, float | str | None] = field(default_factory=dict)
    from_s: float | None = None  # where in the recording that window begins; None: nothing was judged

    def as_json(self, price: float | None = None, currency: str | None = None) -> dict[str, Any]:
        """The object that `fettle advise --json` prints; costs are in `currency`, null where no price of a GPU-hour is given."""
        return {
            "recording": self.recording,
            "bottleneck": self.diagnosis.bottleneck,
            "confidence": self.diagnosis.confidence,
            "shares": self.diagnosis.shares,
            "window_s": self.window_s,
            "from_s": self.from_s,
            "note": self.note,
            "profile": dict(self.profile) or None,
            "currency": None if price is None else currency,
            "findings": [
                as_json(finding) | {"cost_a_day": cost_a_day(finding.gpu_hours_a_day, price)}
                for finding in self.evaluation.findings
            ],
            "not_evaluated": [
                {"rule": gap.rule, "target": gap.target, "missing": list(gap.missing)} for gap in self.evaluation.not_evaluated
            ],
        }


def judge(
    recording: Recording, patience_s: float = 2.0, profile: Mapping[str, float | str | None] = MappingProxyType({})
) -> Judgement:
    """The diagnosis and findings of the steady part of `recording`; RecordingError when a sample cannot be one.

    `profile`: the features of a profile of the same program (profiles/joined.py).
    """
    return replace(_judged(recording, patience_s, profile), profile=profile)


def _judged(recording: Recording, patience_s: float, profile: Mapping[str, float | str | None]) -> Judgement:
    window = from_recording(recording)
    frames = features(
        window,
        patience_s,
        from_start=True,
        min_samples=MIN_SAMPLES,
        min_coverage=MIN_COVERAGE,
        min_s=MIN_S,
    )
    rules = [rule for rule in load() if rule.scope != "fleet"]
    more = of_window(window, frames, wanted(rules) | READS | memory_split.READS)
    if profile:
        schema = {"job": pl.String(), **{name: kind(name) for name in profile}}
        more = replace(more, slow={"job": pl.DataFrame([{"job": recording.name, **profile}], schema=schema)})
    frames = with_more(frames, more)
    evaluation = evaluate(rules, frames)
    jobs = [diagnosis for diagnosis in diagnose(frames) if diagnosis.scope == "job"]
    if not jobs:
        nothing = Diagnosis("job", recording.name, None, {}, "low")
        return Judgement(recording.name, nothing, evaluation, 0.0, _why_nothing(recording, patience_s))
    row = frames.job.row(0, named=True)
    note = None
    if row["free"]:
        note = _("Nothing ran on a GPU in this recording and no process is known to have held one: there is nothing to tune.")
    elif jobs[0].bottleneck == "idle" and not row["working_gpus"]:
        note = _("The GPU was held but never used after start-up.")
    elif row["sm_active"] is None and row["power_share"] is None:
        note = _("Of the GPU's units nothing was recorded: utilisation says that something ran, not what limited it.")
    elif jobs[0].bottleneck == "copy" and row["write_bytes_per_s"] is None and _mostly_to_host(row):
        note = _("What the process writes was not recorded: copies to the host cannot be told from saving a checkpoint.")
    began = frames.gpu.get_column("from_t").min()
    from_s = round(float(began), 2) if isinstance(began, int | float) else None
    return Judgement(recording.name, jobs[0], evaluation, round(float(row["window_s"] or 0.0), 2), note, from_s=from_s)


def _mostly_to_host(row: dict[str, Any]) -> bool:
    """False where most bytes go to the GPU; True where nobody knows."""
    up, down = row["pcie_tx_bytes_per_s"], row["pcie_rx_bytes_per_s"]
    return up is None or down is None or up > down


def _why_nothing(recording: Recording, patience_s: float) -> str:
    if not any(sample.gpus for sample in recording.samples):
        return "The recording has no reading of any GPU."
    return (
        f"Too little is left to judge after start-up and {patience_s:g} s of warm-up: at least {MIN_S:g} s and {MIN_SAMPLES} samples"
        " are needed. Record for longer, or leave less warm-up out (--patience)."
    )
