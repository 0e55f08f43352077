"""Pairs of conditions that a finding would flap between: found where they only compare, left alone where they fit."""

import pytest

from advisor.conditions import condition
from advisor.finding import Scope
from advisor.flapping import MOST_FEATURES, both_hold


@pytest.mark.parametrize(
    ("opens", "clears", "where"),
    [
        ("busy > 0.5", "busy > 0.1", {"busy": 0.75}),
        ("busy > 0.5", "busy < 0.9", {"busy": 0.7}),
        ("busy >= 0.5", "busy <= 0.5", {"busy": 0.5}),
        ("busy BETWEEN 0.2 AND 0.6", "busy < 0.3 OR busy > 0.8", {"busy": 0.25}),
        ("name = 'a'", "name LIKE 'a%'", {"name": "a"}),
        ("serves", "serves OR busy < 0.1", {"busy": 0.05, "serves": True}),
        ("busy IS NULL", "busy IS NULL OR busy > 0.5", {"busy": None}),
    ],
)
def test_a_row_that_opens_and_clears_is_found(opens: str, clears: str, where: dict[str, object]) -> None:
    """With values on which both hold; both are conditions."""
    scope: Scope = "gpu"
    assert all(condition(text, scope) is not None for text in (opens, clears))

    assert both_hold(opens, clears, scope) == where


@pytest.mark.parametrize(
    ("opens", "clears"),
    [
        ("busy > 0.5", "busy < 0.4"),
        ("busy > 0.5", "busy <= 0.5"),
        ("busy > 0.5", "NOT (busy > 0.5)"),
        ("busy >= 0.5 AND sm_active < 0.2", "busy < 0.3 OR sm_active > 0.25"),
        ("mem_used_share >= 0.5 AND busy < 0.05 AND NOT serves", "busy >= 0.1"),
        ("busy < -0.5", "busy > -0.25"),
        ("name = 'a'", "name <> 'a'"),
    ],
)
def test_conditions_that_never_hold_together_are_left_alone(opens: str, clears: str) -> None:
    """Whatever their distance."""
    assert both_hold(opens, clears, "gpu") is None


def test_conditions_on_different_features_are_left_to_the_trial() -> None:
    """Whether a card that is full is ever idle, telemetry knows."""
    assert both_hold("mem_used_share > 0.9", "busy < 0.1", "gpu") is None


def test_more_features_than_can_be_tried_are_left_to_the_trial() -> None:
    """Each further one multiplies the rows."""
    opens = "busy > 0.1 AND sm_active > 0.1 AND mem_used_share > 0.1 AND power_share > 0.1"

    assert opens.count("AND") >= MOST_FEATURES
    assert both_hold(opens, opens, "gpu") is None
