"""How long a condition must have been seen before its finding fires: a threshold of every rule, for each severity that it can have.

A threshold named `fires_after_critical_s` and so on. As shipped it is 0: two windows in a row are enough, and one of what is critical.
What events report fires at once, whatever is set.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import polars as pl

from advisor.features import Frames
from advisor.finding import SEVERITIES
from advisor.rule import KEYS, Rule, Threshold
from fleet.tuning.matching import Setting, thresholds

LONGEST_S: Final = 86_400.0
NAMES: Final[Mapping[str, str]] = {f"fires_after_{severity}_s": severity for severity in SEVERITIES}
"""By the threshold's name the severity that it is for."""
_EACH: Final = {severity: Threshold(name, 0.0, "seconds", 0.0, LONGEST_S) for name, severity in NAMES.items()}


@dataclass(frozen=True, slots=True)
class Durations:
    """The minimum durations in force: `site` by rule and severity in seconds, `targets` by those and the target where it differs."""

    site: Mapping[tuple[str, str], float] = field(default_factory=dict)
    targets: Mapping[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)

    def of(self, rule: str, severity: str, target: str) -> timedelta:
        """How long the rule's condition must last on the target before it fires."""
        key = rule, severity
        if key in self.targets and target in self.targets[key]:
            return timedelta(seconds=self.targets[key][target])
        return timedelta(seconds=self.site.get(key, 0.0))


AT_ONCE: Final = Durations()
"""As shipped."""


def of_rule(rule: Rule) -> tuple[Threshold, ...]:
    """The minimum durations that can be set of a rule: one for each severity that its findings may have."""
    return (_EACH[rule.severity],) if isinstance(rule.severity, str) else tuple(_EACH.values())


def settable(rule: Rule) -> tuple[Threshold, ...]:
    """Everything of a rule that a site may set: the thresholds of its conditions, then its minimum durations."""
    return (*rule.thresholds, *of_rule(rule))


def without(settings: Mapping[str, tuple[Setting, ...]]) -> dict[str, tuple[Setting, ...]]:
    """The settings that conditions read."""
    kept = {rule: tuple(one for one in ours if one.threshold not in NAMES) for rule, ours in settings.items()}
    return {rule: ours for rule, ours in kept.items() if ours}


def in_force(
    settings: Mapping[str, Collection[Setting]], rules: Iterable[Rule], frames: Frames, node_names: Mapping[int, str]
) -> Durations:
    """The minimum durations that hold for the targets of `frames`."""
    asked = {rule: [one for one in ours if one.threshold in NAMES] for rule, ours in settings.items()}
    asked = {rule: ours for rule, ours in asked.items() if ours}
    if not asked:
        return AT_ONCE
    scopes = {rule.id: rule.scope for rule in rules}
    site: dict[tuple[str, str], float] = {}
    targets: dict[tuple[str, str], dict[str, float]] = {}
    for rule, values in thresholds(asked, rules, frames, node_names).items():
        frame, key = getattr(frames, scopes[rule]), KEYS[scopes[rule]]
        for name, value in values.items():
            if not isinstance(value, pl.Expr):
                site[rule, NAMES[name]] = value
            elif key in frame.columns:
                rows = frame.select(pl.col(key).cast(pl.String), value.alias("_seconds")).drop_nulls()
                targets[rule, NAMES[name]] = dict(rows.iter_rows())
    return Durations(site, targets)
