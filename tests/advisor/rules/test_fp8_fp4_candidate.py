"""fp8-fp4-candidate: a BF16 transformer that FP8 would speed up."""

from typing import Any, ClassVar

import pytest

from tests.advisor.rules.cases import RuleCases


class TestFp8Fp4Candidate(RuleCases):
    """A BF16 transformer that FP8 would speed up."""

    rule = "fp8-fp4-candidate"
    healthy: ClassVar[dict[str, Any]] = {
        "dtype": "bf16", "told_hidden": 2048, "params": 1.5e9, "mfu": 0.45, "note_quality_eval_age_s": 86400.0, "told_kind": "train",
    }  # fmt: skip
    fires: ClassVar[dict[str, Any]] = {"told_hidden": 8192, "params": 70e9, "tensor_active": 0.5}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"dtype": "fp16"},
        {"sm": 80},
        {"tensor_active": 0.2},
        {"dram_active": 0.8},
        {"told_hidden": 2048},
        {"mfu": 0.2},
        {"params": 5e8},
        {"comm_share": 0.3},
        {"share_communication": 0.3},
        {"told_kind": "serve"},
        {"tenants": 2},
    ]
    between: ClassVar[dict[str, Any] | None] = fires | {"tensor_active": 0.32, "mfu": 0.32, "dram_active": 0.65}
    lacks = ("mfu", "dtype")


def test_without_an_evaluation_it_says_what_is_missing() -> None:
    """A change of precision that nobody can check is not proposed."""
    evaluation = TestFp8Fp4Candidate.judge(TestFp8Fp4Candidate.fires | {"note_quality_eval_age_s": None})

    assert evaluation.findings == []
    assert [gap.missing for gap in evaluation.not_evaluated] == [("note_quality_eval_age_s",)]


def test_its_gain_follows_from_the_computing_time() -> None:
    """Half of 0.97 of the time at twice the speed: 1 / (1 - 0.2425)."""
    finding = TestFp8Fp4Candidate().found()

    assert (finding.severity, finding.confidence) == ("info", "low")
    assert finding.expected_gain is not None
    assert (finding.expected_gain.low, finding.expected_gain.high) == (1.1, 1.32)
    assert "The tensor cores are active 50% of the time at an MFU of 45%" in finding.summary.english()


@pytest.mark.parametrize(
    ("readings", "told", "not_told"),
    [
        ({}, "convert_to_float8_training", "NVFP4"),
        ({"launcher": "megatron"}, "--fp8-format hybrid", "torchao"),
        ({"sm": 100}, "NVFP4", "Megatron"),
    ],
)
def test_the_change_is_the_cards_and_the_launchers(readings: dict[str, Any], told: str, not_told: str) -> None:
    """FP4 on Blackwell alone."""
    (finding,) = TestFp8Fp4Candidate.judge(TestFp8Fp4Candidate.fires | readings).findings
    said = "\n".join(change.text for change in finding.change)

    assert told in said
    assert not_told not in said
