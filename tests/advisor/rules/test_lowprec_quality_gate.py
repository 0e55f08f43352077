"""lowprec-quality-gate: another precision, and no evaluation that it passed."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases


class TestLowprecQualityGate(RuleCases):
    """Another precision, and no evaluation that it passed."""

    rule = "lowprec-quality-gate"
    healthy: ClassVar[dict[str, Any]] = {
        "note_precision": "fp8", "note_precision_before": "bf16", "note_precision_changed_s": 172800.0, "note_quality_age_s": 86400.0,
        "note_quality_drop": 0.002,
    }  # fmt: skip
    fires: ClassVar[dict[str, Any]] = {"note_quality_age_s": None, "note_quality_drop": None}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"note_precision": "bf16"},
        {"note_quality_age_s": 3600.0},
        {"note_quality_age_s": 3600.0, "note_quality_drop": 0.009},
        {"note_canary_share": 0.02, "note_precision_changed_s": 3600.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"note_quality_drop": 0.008}
    lacks = ("note_precision", "note_precision_before", "note_precision_changed_s")


def said(**readings: Any) -> str:
    """The summary."""
    (finding,) = TestLowprecQualityGate.judge(readings).findings
    return finding.summary.english()


def test_it_tells_three_cases_apart() -> None:
    """Never evaluated, evaluated before the change, evaluated and worse."""
    assert said(note_quality_age_s=None) == "The service went from bf16 to fp8, and no evaluation is newer than the change."
    assert said(note_quality_age_s=259200.0) == (
        "The service went from bf16 to fp8, and the last evaluation is older than the change: it tells of the former model."
    )
    assert said(note_quality_drop=0.03) == "The service went from bf16 to fp8, and its worst metric fell by 3.0%."


@pytest.mark.parametrize(
    "canary",
    [
        {"note_canary_share": 0.02, "note_precision_changed_s": 100000.0},
        {"note_canary_share": 0.2, "note_precision_changed_s": 3600.0},
    ],
)
def test_a_canary_has_a_day_and_a_twentieth_of_the_traffic(canary: dict[str, float]) -> None:
    """Beyond either it is a deployment."""
    assert TestLowprecQualityGate.judge(TestLowprecQualityGate.fires | canary).findings


@pytest.mark.parametrize(("kind", "command"), [("vllm", "vllm serve"), ("sglang", "sglang.launch_server"), ("triton", None)])
def test_a_service_that_answers_worse_goes_back_by_its_engines_command(kind: str, command: str | None) -> None:
    """With the model's name quoted; a service that nobody evaluated is evaluated first."""
    (worse,) = TestLowprecQualityGate.judge({"note_quality_drop": 0.03, "kind": kind, "model": "my model"}).findings
    (unchecked,) = TestLowprecQualityGate.judge(TestLowprecQualityGate.fires | {"kind": kind}).findings

    flags = [change.text for change in worse.change if change.kind == "flag"]
    assert len(flags) == (command is not None)
    assert all(command is not None and command in text and "'my model'" in text for text in flags)
    assert any("num_calibration_samples=1024" in change.text for change in worse.change)
    assert [change.kind for change in unchecked.change] == ["config", "config"]
