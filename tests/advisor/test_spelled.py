"""Conditions as people read them: the same SQL that they could write themselves."""

import pytest

from advisor.conditions import condition
from advisor.expression_tree import tree_of
from advisor.rule import Rule, load
from advisor.spelled import spelled


@pytest.mark.parametrize(
    "sql",
    [
        "busy >= 0.5 AND sm_active < 0.2",
        "(busy > 1 OR sm_active < 0.2) AND free",
        "busy - (sm_active - dram_active) > 0",
        "busy - sm_active - dram_active > 0",
        "busy * (sm_active + 1) / 4 > 2",
        "COALESCE(sm_active, 0) IS NULL",
        "NOT (busy > 1 OR free)",
        "GREATEST(busy, sm_active, 1) >= 1",
        "name = 'it''s'",
        "name IN ('a', 'b') AND index IN (0, 1)",
        "IF(free, busy, 1) > 0",
        "(busy > 1) = free",
    ],
)
def test_what_is_spelled_means_what_was_written(sql: str) -> None:
    """It is the same text, so read again it is the same condition."""
    written = condition(sql, "gpu")

    assert spelled(written) == sql
    assert tree_of(condition(spelled(written), "gpu")) == tree_of(written)


@pytest.mark.parametrize("rule", load(), ids=lambda rule: rule.id)
def test_every_rule_can_be_spelled(rule: Rule) -> None:
    """With its thresholds' values in place of their names."""
    values = {one.name: "THE VALUE" for one in rule.thresholds}
    for expression in (rule.opens, rule.clears):
        text = spelled(expression, values)

        assert text
        assert "…" not in text
        assert "param:" not in text
