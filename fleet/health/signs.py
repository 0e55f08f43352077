"""What speaks against a GPU or a node: open findings of some rules, events that no finding tells of yet, and what people said."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Final, Literal, TypeAlias

from django.db.models import Q, QuerySet
from django.utils.translation import gettext

from advisor import rule as shipped
from advisor import xid_catalog
from advisor.rule import Rule
from fleet.findings.content import render
from fleet.findings.events import xid_of
from fleet.findings.models import Finding
from fleet.inventory.models import Event
from fleet.tuning.models import OwnRule

State: TypeAlias = Literal["usable", "avoid", "unknown", "drain"]
STATES: Final[tuple[State, ...]] = ("usable", "avoid", "unknown", "drain")
"""From the best to the worst. What is unknown may be well or ill; what should be drained is known to be ill."""

EVENTS_FOR: Final = timedelta(hours=1)
"""An event that its source calls critical, and that no rule knows, speaks for so long."""


@dataclass(frozen=True, slots=True)
class Sign:
    """One reason for a state. `rule` is empty for an event, `event` for a finding, both for what neither told (silence, a note)."""

    state: State
    text: str
    since: datetime | None
    rule: str = ""
    event: str = ""
    finding: int | None = None


@dataclass(frozen=True, slots=True)
class Signs:
    """By node and by GPU what speaks against each."""

    nodes: dict[int, list[Sign]]
    gpus: dict[int, list[Sign]]


@dataclass(frozen=True, slots=True)
class Told:
    """What a rule's severity means for the health of its target."""

    drains: bool
    counts: bool

    def state(self, severity: str) -> State | None:
        """avoid or drain; None where the rule says nothing of health."""
        if severity == "critical" and self.counts:
            return "drain" if self.drains else "avoid"
        return "avoid" if severity == "warn" and self.counts else None


@cache
def _told() -> dict[str, Told]:
    """By rule, of those that ship."""
    found = {
        health.rule: Told(drains=any(map(_says_drain, (step.text for step in health.change))), counts=health.group == "health")
        for health in xid_catalog.HEALTH
    }
    return found | {rule.id: _of(rule) for rule in shipped.load() if rule.scope in ("gpu", "node")}


def _of(rule: Rule) -> Told:
    drains = any(map(_says_drain, (step.text for step in rule.change)))
    return Told(drains=drains, counts=drains or rule.stops_work or rule.group in ("health", "clocks"))


def _says_drain(text: str) -> bool:
    return "state=drain" in text or "kubectl cordon" in text


def that_count() -> dict[str, Told]:
    """By id every rule that speaks of health, the site's own of the group health too: a critical one drains."""
    own = OwnRule.objects.filter(group="health", scope__in=("gpu", "node")).values_list("slug", flat=True)
    return {rule: told for rule, told in _told().items() if told.counts} | dict.fromkeys(own, Told(drains=True, counts=True))


def _open(nodes: Collection[int] | None, rules: Collection[str]) -> QuerySet[Finding]:
    rows = Finding.objects.filter(
        resolved_at=None, shadow=False, condition__in=("firing", "noisy"), severity__in=("warn", "critical"),
        scope__in=("gpu", "node"), rule__in=rules,
    )  # fmt: skip
    return rows if nodes is None else rows.filter(node__in=nodes)


def findings(nodes: Collection[int]) -> Signs:
    """Of open findings on these nodes."""
    rules = that_count()
    found = Signs({}, {})
    for row in _open(nodes, rules).order_by("opened_at", "pk"):
        state = rules[row.rule].state(row.severity)
        if state is None:
            continue
        sign = Sign(state, render(row).title, row.opened_at, rule=row.rule, finding=row.pk)
        if row.scope == "gpu" and row.target.isdigit():
            found.gpus.setdefault(int(row.target), []).append(sign)
        elif row.node_id is not None:
            found.nodes.setdefault(row.node_id, []).append(sign)
    return found


def states_by_findings() -> tuple[dict[int, State], dict[int, State]]:
    """By node and by GPU of the whole fleet the state that open findings leave, without their texts: those cost time."""
    rules = that_count()
    nodes: dict[int, State] = {}
    gpus: dict[int, State] = {}
    rows = _open(None, rules).order_by().values_list("rule", "severity", "scope", "target", "node_id")
    for rule, severity, scope, target, node in rows:
        state = rules[rule].state(severity)
        of = gpus if scope == "gpu" else nodes
        key = int(target) if scope == "gpu" and target.isdigit() else node
        if state is not None and key is not None:
            of[key] = worse(of.get(key, "usable"), state)
    return nodes, gpus


def worse(one: State, other: State) -> State:
    """The worse of two."""
    return max(one, other, key=STATES.index)


def events(nodes: Collection[int] | None, at: datetime) -> Signs:
    """Of events that no finding tells of: what came a moment ago, and what its source calls critical and no rule knows."""
    fresh = Q(handled_at=None, received_at__gte=at - EVENTS_FOR, kind__in=("xid", "gpu_lost"))
    rows = Event.objects.filter(fresh | Q(severity="critical", received_at__gte=at - EVENTS_FOR)).order_by("observed_at", "pk")
    if nodes is not None:
        rows = rows.filter(node__in=nodes)
    found = Signs({}, {})
    for row in rows[:1000]:
        if row.kind == "sxid" and row.handled_at is not None:
            continue  # its finding tells
        xid = xid_of(row)
        known = None if xid is None else xid_catalog.BY_RULE.get(xid.rule)
        if known is not None and row.handled_at is not None:
            continue  # its finding tells
        state = "avoid" if known is None else _told()[known.rule].state(known.severity)
        if state is None or (known is None and row.severity != "critical"):
            continue
        code = "" if row.code is None else f" {row.code}"
        text = gettext(known.title) if known is not None else row.text or gettext("An event that its source calls critical.")
        sign = Sign(state, text, row.observed_at, event=f"{row.kind}{code}")
        of = found.nodes if row.gpu_id is None else found.gpus
        of.setdefault(row.node_id if row.gpu_id is None else row.gpu_id, []).append(sign)
    return found
