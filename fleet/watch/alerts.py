"""Opening and ending what the watch finds: each alert opens after it was seen for a while, and ends by a certain word alone."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext_noop

from advisor.event_rule import told
from advisor.finding import SEVERITIES, Evidence, Severity
from advisor.text import Value
from advisor.xid_catalog import BY_RULE
from fleet.findings import lifecycle
from fleet.findings.models import Finding
from fleet.tuning.in_force import InForce

RULES: Final = ("node-silent", "many-nodes-silent", "gpu-missing", "source-lagging", "source-frozen", "clock-skew")
MAINTENANCE: Final = gettext_noop("Somebody works on the node.")
"""The note of the transition that ends an alert because its node is in maintenance."""


@dataclass(frozen=True, slots=True)
class Open:
    """An open finding of the watch."""

    pk: int
    severity: str
    node: int | None


@dataclass(slots=True)
class Alerts:
    """The open findings of the watch at one look, by rule and target; `seen` is the watch's memory, brought up to date by its checks."""

    at: datetime
    force: InForce
    seen: dict[str, float]
    open: dict[tuple[str, str], Open] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)

    def read(self) -> None:
        """Read what is open."""
        rows = Finding.objects.filter(rule__in=RULES, resolved_at=None).values_list("rule", "target", "pk", "severity", "node_id")
        self.open = {(rule, target): Open(pk, severity, node) for rule, target, pk, severity, node in rows}

    def of_rule(self, rule: str) -> dict[str, Open]:
        """The open findings of a rule by target."""
        return {target: one for (known, target), one in self.open.items() if known == rule}

    def lasts(self, key: str, is_wrong: bool, for_s: float) -> bool:
        """True when `key` has looked wrong for so long, this look included."""
        self._asked.add(key)
        if not is_wrong:
            self.seen.pop(key, None)
            return False
        now = self.at.timestamp()
        return now - self.seen.setdefault(key, now) >= for_s

    def forget_unasked(self) -> None:
        """Let go of keys that no check asked about: their nodes are gone."""
        for key in self.seen.keys() - self._asked:
            del self.seen[key]

    def tell(
        self,
        rule: str,
        target: str,
        params: Mapping[str, Value],
        evidence: tuple[Evidence, ...],
        *,
        node: int | None = None,
        name: str = "",
        gpus: Collection[int] = (),
        severity: Severity | None = None,
        summary: str | None = None,
        cause: int | None = None,
        since: datetime | None = None,
    ) -> int | None:
        """Open the finding, or let one that is open rise; its key, None where the site has switched the rule off."""
        health = BY_RULE[rule]
        if rule in self.force.off:
            return None
        held = self.open.get((rule, target))
        wanted = severity or health.severity
        if held is not None and SEVERITIES.index(wanted) <= SEVERITIES.index(held.severity):
            return held.pk
        found = told(health, target, params, evidence, node=name, severity=wanted, summary=summary)
        place = lifecycle.Place(node, tuple(gpus))
        try:
            with transaction.atomic():
                row = lifecycle.report(self.at, found, place, since=since, shadow=rule in self.force.shadow)
                if cause is not None and row.cause_id is None:
                    Finding.objects.filter(pk=row.pk).update(cause=cause, cause_place="cluster")
        except IntegrityError:  # another worker's look opened it
            return None
        self.open[rule, target] = Open(row.pk, row.severity, node)
        return row.pk

    def end(self, rule: str, target: str, note: str) -> None:
        """End an open finding on a certain word; nothing where there is none."""
        if (rule, target) in self.open and lifecycle.end(f"{rule}:{BY_RULE[rule].scope}:{target}", self.at, note):
            del self.open[rule, target]
