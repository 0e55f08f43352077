"""Hardware health: what is not measured is unknown, never clear."""

import pytest

from advisor.engine import evaluate
from advisor.rule import Rule, load
from tests.advisor.rules.cases import KEY, frames

HEALTH = [rule for rule in load() if rule.group == "health" or rule.id == "app-fault-xid"]


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("rule", HEALTH, ids=lambda rule: rule.id)
def test_a_rule_without_its_readings_says_not_evaluated(rule: Rule, free: bool) -> None:
    """On a GPU that somebody uses and on one that nobody does; what is open stays open."""
    readings: dict[str, object] = dict.fromkeys({name for need in rule.needs for name in need.features})
    given = frames(**(readings | {"free": free}))
    fingerprint = f"{rule.id}:{rule.scope}:{KEY[rule.scope]}"

    for fingerprints in (frozenset[str](), {fingerprint}):
        verdict = evaluate((rule,), given, fingerprints)
        if free and rule.group != "health":
            continue
        assert [one.rule for one in verdict.not_evaluated] == [rule.id]
        assert verdict.findings == []
