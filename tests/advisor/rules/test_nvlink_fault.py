"""nvlink-fault: links that are missing or err."""

from typing import Any, ClassVar

from tests.advisor.rules.cases import RuleCases


class TestNvlinkFault(RuleCases):
    """Links that are missing or err."""

    rule = "nvlink-fault"
    healthy: ClassVar[dict[str, Any]] = {}
    fires: ClassVar[dict[str, Any]] = {"nvlink_links_active": 16}
    silent: ClassVar[list[dict[str, Any]]] = [
        {"nvlink_links_active": 18},
        {"mig": True},
        {"note_maintenance": True},
        {"up_s": 60.0},
    ]
    between: ClassVar[dict[str, Any] | None] = {"nvlink_errors_per_min": 0.5}
    lacks = ("nvlink_links_active", "nvlink_errors_per_min", "fabric_state", "fabric_degraded")


def test_what_is_missing_is_critical_and_what_errs_a_warning() -> None:
    """Each way of failing in its own words."""
    missing, outside, degraded, errs = (
        TestNvlinkFault.judge(readings).findings[0]
        for readings in (
            {"nvlink_links_active": 16},
            {"fabric_state": 1.0},
            {"fabric_degraded": True},
            {"nvlink_errors_per_min": 6.0},
        )
    )

    assert [one.severity for one in (missing, outside, degraded, errs)] == ["critical", "critical", "warn", "warn"]
    assert missing.summary.english() == "16 of the GPU's 18 NVLink links are up."
    assert "not joined" in outside.summary.english()
    assert "6.0 errors a minute" in errs.summary.english()


def test_a_card_without_links_expects_none() -> None:
    """A PCIe card has nothing to miss."""
    assert (
        TestNvlinkFault.judge({"nvlink_links_active": None, "nvlink_links_expected": None, "nvlink_errors_per_min": 0.0}).findings
        == []
    )


def test_links_of_which_nothing_is_known_are_not_clear() -> None:
    """A card that has links and does not tell of them stays as it was; one that never had any is clear."""
    judge = TestNvlinkFault.judge
    assert judge({"nvlink_links_active": None}, is_open=True).findings
    assert judge({"nvlink_errors_per_min": None}, is_open=True).findings
    none = {"nvlink_links_active": None, "nvlink_links_expected": None, "nvlink_errors_per_min": None}

    assert not judge(none, is_open=True).findings
    assert not judge({"nvlink_links_active": None}).findings
