"""What a finding costs: GPU-hours a day, money at a price, and nothing invented where either is not known."""

import pytest

from advisor import cost
from advisor.finding import Finding, as_json
from tests.fleet.rows import found


@pytest.mark.parametrize(
    ("recoverable", "gpus", "hours"),
    [(0.5, 8, 96.0), (1.0, 1, 24.0), (0.0, 8, 0.0), (0.0, None, 0.0), (0.5, None, None), (1 / 3, 1, 8.0)],
)
def test_gpu_hours_are_the_share_of_all_its_gpus_for_a_day(recoverable: float, gpus: int | None, hours: float | None) -> None:
    """What recovers nothing costs nothing; of an unknown number of GPUs the cost is unknown."""
    assert cost.gpu_hours_a_day(recoverable, gpus) == hours


@pytest.mark.parametrize(
    ("hours", "price", "sentence"),
    [
        (38.0, 2.5, "38.0 GPU-hours a day, 95.00 USD at 2.50 USD a GPU-hour"),
        (1843.2, 2.5, "1,843 GPU-hours a day, 4,608 USD at 2.50 USD a GPU-hour"),
        (38.0, None, "38.0 GPU-hours a day"),
        (38.0, 0.0, "38.0 GPU-hours a day, 0 USD at 0.00 USD a GPU-hour"),
        (0.48, 0.02, "0.48 GPU-hours a day, 0.0096 USD at 0.0200 USD a GPU-hour"),
    ],
)
def test_the_cost_is_one_sentence(hours: float, price: float | None, sentence: str) -> None:
    """Without a price only GPU-hours are told; a price of zero is a price."""
    text = cost.said(hours, price, "USD")

    assert text is not None
    assert text.english() == sentence


@pytest.mark.parametrize("hours", [0.0, None])
def test_nothing_to_win_back_and_nothing_known_are_no_sentence(hours: float | None) -> None:
    """Neither costs money that anyone could name."""
    assert cost.said(hours, 2.5, "USD") is None


def test_an_unknown_price_is_an_unknown_cost() -> None:
    """Not zero."""
    assert cost.cost_a_day(38.0, None) is None
    assert cost.cost_a_day(None, 2.5) is None
    assert cost.cost_a_day(38.0, 0.0) == 0.0


def rules_of(*findings: Finding) -> list[str]:
    """Their rules, strongest first."""
    return [one.rule for one in sorted(findings, key=Finding.order)]


def test_findings_are_ranked_by_what_could_be_won_back_behind_the_critical_ones() -> None:
    """Critical first whatever it recovers; then GPU-hours, not shares; then severity; then the rule's name; the unknown last."""
    assert rules_of(
        found(rule="unknown", severity="warn", recoverable=0.9, gpus=None),
        found(rule="b-nothing", severity="info", recoverable=0.0, gpus=8),
        found(rule="a-nothing", severity="info", recoverable=0.0, gpus=8),
        found(rule="warned", severity="warn", recoverable=0.0, gpus=8),
        found(rule="small", severity="warn", recoverable=0.9, gpus=1),
        found(rule="large", severity="advice", recoverable=0.2, gpus=64),
        found(rule="critical", severity="critical", recoverable=0.0, gpus=1),
    ) == ["critical", "large", "small", "warned", "a-nothing", "b-nothing", "unknown"]


def test_json_tells_gpus_and_hours() -> None:
    """As numbers, and null where it is not known."""
    said = as_json(found(recoverable=0.5, gpus=8))
    unknown = as_json(found(recoverable=0.5, gpus=None))

    assert (said["gpus"], said["gpu_hours_a_day"]) == (8, 96.0)
    assert (unknown["gpus"], unknown["gpu_hours_a_day"]) == (None, None)
