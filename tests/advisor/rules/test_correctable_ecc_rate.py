"""correctable-ecc-rate: corrected errors that come too fast."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestCorrectableEccRate(RuleCases):
    """Corrected errors that come too fast."""

    rule = "correctable-ecc-rate"
    healthy: ClassVar[dict[str, Any]] = {"ecc_corrected_day": 0.0}
    fires: ClassVar[dict[str, Any]] = {"ecc_corrected_day": 5000.0, "ecc_corrected_day_p99": 20.0}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"ecc_corrected_day": 90.0},
        {"ecc_corrected_day_p99": 600.0},
        {"card_age_h": 3.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"ecc_corrected_day": 120.0, "ecc_corrected_day_p99": 20.0}
    lacks = ("ecc_corrected_day", "sram_threshold_exceeded")


def test_the_cards_own_threshold_is_a_warning() -> None:
    """SRAM has few spare cells: its threshold asks for field diagnostics."""
    (finding,) = TestCorrectableEccRate.judge({"ecc_corrected_day": 0.0, "sram_threshold_exceeded": True}).findings

    assert finding.severity == "warn"
    assert "SRAM" in finding.summary.english()


def test_a_new_card_past_its_own_threshold_is_told_at_once() -> None:
    """Burn-in explains corrected errors, not this."""
    assert TestCorrectableEccRate.judge({"ecc_corrected_day": 0.0, "sram_threshold_exceeded": True, "card_age_h": 3.0}).findings
