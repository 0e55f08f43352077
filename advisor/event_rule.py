"""`Health`: what a rule says that is not judged in windows: events open it, or the server's own look at the fleet does."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from advisor.finding import Change, Confidence, Evidence, Finding, Scope, Severity
from advisor.rule import Group
from advisor.text import Text, Value, _

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
NEVER_S: Final = 36_500 * DAY_S
"""Of what ends by one certain word alone, however long nothing was said."""
NOTHING_TO_ROLL_BACK: Final = _("Nothing to roll back: put the node back into service.")
BY_EVENTS: Final = _("When a node reports an event of this kind.")
BY_WATCH: Final = _("When the server sees it in its own look at the fleet, every few seconds.")
BY_ALERTMANAGER: Final = _("When the site's Alertmanager tells of an alert.")
DIAGNOSE: Final = Change("command", "dcgmi diag -r 3")


@dataclass(frozen=True, slots=True)
class Health:
    """One rule of events: what to say, what to do, how long without a repeat counts as over."""

    rule: str
    severity: Severity
    confidence: Confidence
    title: str
    summary: str
    change: tuple[Change, ...]  # fields: node, gpu
    risk: str
    rollback: str
    verify: str
    quiet_s: float
    scope: Scope = "gpu"
    group: Group = "health"
    sources: tuple[str, ...] = ()
    instead: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    """By what NVIDIA names as the action, other steps than `change`."""
    opens: str = BY_EVENTS
    """When it opens, in a sentence."""


def told(
    rule: Health,
    target: str,
    params: Mapping[str, Value],
    evidence: tuple[Evidence, ...],
    *,
    node: str = "",
    gpu: str = "",
    severity: Severity | None = None,
    summary: str | None = None,
    change: tuple[Change, ...] | None = None,
    sources: tuple[str, ...] | None = None,
    gpus: int | None = None,
) -> Finding:
    """The finding of `rule` on `target`; `params` fill its texts, `node` and `gpu` (a UUID) its commands, shell-quoted."""
    words = {"node": shlex.quote(node), "gpu": shlex.quote(gpu)}
    steps = rule.change if change is None else change
    return Finding(
        rule=rule.rule,
        severity=severity or rule.severity,
        scope=rule.scope,
        target=target,
        bottleneck=None,
        confidence=rule.confidence,
        title=Text(rule.title, dict(params)),
        summary=Text(summary or rule.summary, dict(params)),
        evidence=evidence,
        change=tuple(Change(step.kind, step.text.format_map(words)) for step in steps),
        expected_gain=None,
        recoverable=0.0,
        risk=Text(rule.risk),
        rollback=Text(rule.rollback),
        verify=Text(rule.verify),
        sources=rule.sources if sources is None else sources,
        gpus=gpus,
    )
