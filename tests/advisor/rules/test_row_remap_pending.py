"""row-remap-pending: a row waits for a reset."""

from typing import Any, ClassVar

from advisor.engine import evaluate
from advisor.rule import load
from tests.advisor.rules.cases import RuleCases, frames


class TestRowRemapPending(RuleCases):
    """A row waits for a reset."""

    rule = "row-remap-pending"
    fires: ClassVar[dict[str, Any]] = {"remap_pending": 1.0}
    silent: ClassVar[list[dict[str, Any]]] = [{"remap_pending": 0.0}]
    lacks = ("remap_pending", "retired_pages_pending")


def test_it_yields_to_a_failed_remap() -> None:
    """One fault, one finding: the graver one."""
    found = evaluate(load(), frames(remap_pending=1.0, remap_failed=1.0)).findings

    assert [finding.rule for finding in found] == ["row-remap-failed"]


def test_a_card_before_ampere_retires_pages() -> None:
    """It has no rows to remap: the older counter stands in, in words of its own."""
    (finding,) = TestRowRemapPending.judge({"remap_pending": None, "retired_pages_pending": 1.0}).findings

    assert "page of memory" in finding.summary.english()
    assert not TestRowRemapPending.judge({"remap_pending": None, "retired_pages_pending": 0.0}).findings
