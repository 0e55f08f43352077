"""row-remap-failed: no spare rows left."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestRowRemapFailed(RuleCases):
    """No spare rows left."""

    rule = "row-remap-failed"
    fires: ClassVar[dict[str, Any]] = {"remap_failed": 1.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"remap_failed": 0.0}]
    lacks = ("remap_failed", "remap_banks_none")


def test_a_bank_without_spare_rows_is_as_bad() -> None:
    """The flag comes with the next faulty row; the histogram says it before."""
    for readings in ({"remap_banks_none": 1.0}, {"remap_failed": None, "remap_banks_none": 2.0}):
        (finding,) = TestRowRemapFailed.judge(readings).findings

        assert finding.severity == "critical"
        assert "no spare row left" in finding.summary.english()


def test_it_stays_open_while_a_bank_has_no_spare_row() -> None:
    """A reset clears the flag, not the bank."""
    assert TestRowRemapFailed.judge({"remap_failed": 0.0, "remap_banks_none": 1.0}, is_open=True).findings
    assert not TestRowRemapFailed.judge({"remap_failed": 0.0, "remap_banks_none": None}, is_open=True).findings
