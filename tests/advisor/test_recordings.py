"""The advisor against real programs whose bottleneck a person named (labels.json)."""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.recorded import Judgement, judge
from wire import recording

HERE = Path(__file__).parent
RECORDINGS = HERE.parent.parent / "recordings"
LABELS: dict[str, dict[str, Any]] = json.loads((HERE / "labels.json").read_text())


def judged(name: str) -> Judgement:
    """The judgement on one recording of the repository."""
    return judge(recording.read(RECORDINGS / f"{name}.jsonl.gz"))


@pytest.mark.parametrize("name", LABELS)
def test_it_names_the_bottleneck_that_a_person_would(name: str) -> None:
    """The primary label is the person's, or one of those that the person accepts."""
    label = LABELS[name]

    assert judged(name).diagnosis.bottleneck in label.get("bottleneck_any", [label.get("bottleneck")])


@pytest.mark.parametrize("name", LABELS)
def test_it_fires_the_rules_that_a_person_would(name: str) -> None:
    """Every `expect` rule fires and at least one of `expect_any`."""
    label = LABELS[name]
    fired = {finding.rule for finding in judged(name).evaluation.findings}

    assert set(label.get("expect", [])) <= fired
    assert not label.get("expect_any") or fired & set(label["expect_any"])


@pytest.mark.parametrize("name", [name for name, label in LABELS.items() if label.get("expect") == []])
def test_it_leaves_healthy_jobs_alone(name: str) -> None:
    """No warning, and no advice about another bottleneck first."""
    label = LABELS[name]
    findings = judged(name).evaluation.findings

    assert [finding.rule for finding in findings if finding.severity in ("warn", "critical")] == []
    assert not findings or findings[0].bottleneck in label.get("bottleneck_any", [label.get("bottleneck")])


@pytest.mark.parametrize("name", LABELS)
def test_it_gives_shares_that_sum_to_one(name: str) -> None:
    """Shares are fractions of the judged span."""
    shares = judged(name).diagnosis.shares

    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    assert all(0 <= share <= 1 for share in shares.values())
