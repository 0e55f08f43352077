"""Verdicts as pages show them."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from fleet.dashboard import words
from fleet.findings import cost
from fleet.findings.content import sentence
from fleet.findings.models import Finding
from fleet.findings.targets import names
from fleet.verdicts import words as verdict_words
from fleet.verdicts.models import Verification
from fleet.verdicts.recovered import records

WAITS = "waiting"
_TAGS = {"helped": "good", "worse": "bad"}


@dataclass(frozen=True, slots=True)
class Shown:
    """One verification in the reader's language."""

    row: Verification
    verdict: str
    tag: str
    measure: str
    is_estimate: bool
    reason: str
    rollback: str
    recovered: str
    target: str = ""
    path: str = ""
    """The page of its target; empty where it has none."""

    @property
    def is_measured(self) -> bool:
        """True where a ratio is told."""
        return self.row.ratio is not None


def word(verdict: str) -> str:
    """The verdict in a word or two; what has none waits."""
    return words.word(words.ADVICE, verdict) if verdict else gettext("waiting for a run")


def listed(rows: Sequence[Verification]) -> list[Shown]:
    """The rows as pages show them, each with its target's name."""
    named = names((row.scope, row.target) for row in rows)
    return [shown(row, named[row.scope, row.target]) for row in rows]


def shown(row: Verification, target: str = "") -> Shown:
    """The row as pages show it; `target` is what its target is called."""
    return Shown(
        row,
        word(row.verdict),
        _TAGS.get(row.verdict, ""),
        verdict_words.measure_label(row.measure),
        verdict_words.is_estimate(row.measure),
        verdict_words.reason(row),
        sentence(row.rollback) if row.verdict == "worse" else "",
        cost.total(row.recovered_gpu_hours),
        target,
        _path(row, target),
    )


def _path(row: Verification, target: str) -> str:
    if not target or target == row.target:  # a job's name, or one that is gone
        return ""
    return {"gpu": f"/gpus/{row.target}/", "node": f"/nodes/{target}/"}.get(row.scope, "")


def of_finding(finding: Finding) -> Shown | None:
    """The newest verification of a finding; None where its advice was never applied."""
    row = finding.verifications.defer("before_samples", "after_samples").first()
    return None if row is None else shown(row)


def record_of(rule: str) -> str:
    """What this site made of the rule's advice, beside its promise; "" where nothing was measured."""
    found = records([rule])
    return verdict_words.record(found[0] if found else None)
