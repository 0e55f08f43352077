"""What is in force now: the rules to judge by, the site's thresholds, who is in shadow. Read once, kept until somebody changes it."""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from advisor import rule as catalogue
from advisor import xid_catalog
from advisor.rule import Rule
from fleet.tuning.matching import Setting
from fleet.tuning.models import Override, OwnRule, RuleState, RulesVersion, XidOverride
from fleet.tuning.own_rules import OwnRuleError, as_rule
from fleet.tuning.xids import XidSetting

log = logging.getLogger(__name__)

OF_EVENTS: Final = frozenset(health.rule for health in xid_catalog.HEALTH)
"""Rules that events report: some are judged by telemetry too."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The rules to judge by, on or in shadow, and what a site set of them; a rule that is `off` is not among them."""

    rules: tuple[Rule, ...]
    off: frozenset[str] = frozenset()
    shadow: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    settings: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    xids: Mapping[tuple[str, int], tuple[XidSetting, ...]] = field(default_factory=dict)
    """By kind (xid, sxid) and code what the site says of it."""

    @property
    def known(self) -> frozenset[str]:
        """Every rule there is, whatever its state."""
        return frozenset(rule.id for rule in self.rules) | self.off | self.shadow | self.own | OF_EVENTS


_kept: dict[str, InForce] = {}


def in_force() -> InForce:
    """What is in force: one small query, unless something was changed since."""
    token = RulesVersion.objects.values_list("token", flat=True).first() or ""
    if token not in _kept:
        read = _read()
        _kept.clear()
        _kept[token] = read
    return _kept[token]


def state_of(rule: str, *, own: bool = False) -> str:
    """on, shadow or off; a shipped rule is on and an own one off until somebody says."""
    return RuleState.objects.filter(rule=rule).values_list("state", flat=True).first() or ("off" if own else "on")


def _read() -> InForce:
    states = dict(RuleState.objects.values_list("rule", "state"))
    rules = [rule for rule in catalogue.load() if states.get(rule.id) != "off"]
    own = list(OwnRule.objects.all())
    for row in own:
        if states.get(row.slug, "off") != "off":
            try:
                rules.append(as_rule(row))
            except OwnRuleError as error:
                log.warning("The own rule %s is not judged: %s", row.slug, error)
    settings: dict[str, list[Setting]] = defaultdict(list)
    for one in Override.objects.all():
        settings[one.rule].append(Setting(one.threshold, one.matcher, one.pattern, one.value))
    xids: dict[tuple[str, int], list[XidSetting]] = defaultdict(list)
    for of_xid in XidOverride.objects.all():
        mine = XidSetting(of_xid.matcher, of_xid.pattern, of_xid.rule, of_xid.severity, of_xid.ignored)
        xids[of_xid.kind, of_xid.code].append(mine)
    slugs = {row.slug for row in own}
    return InForce(
        rules=tuple(rules),
        off=frozenset(
            {rule for rule, state in states.items() if state == "off"} | {slug for slug in slugs if slug not in states}
        ),
        shadow=frozenset(rule for rule, state in states.items() if state == "shadow"),
        own=frozenset(slugs),
        settings={rule: tuple(ours) for rule, ours in settings.items()},
        xids={key: tuple(ours) for key, ours in xids.items()},
    )
