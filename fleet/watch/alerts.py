"""Opening and ending what the watch finds: each alert opens after it was seen for a while, and ends by a certain word alone."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, cast

from django.db import IntegrityError
from django.utils.translation import gettext_noop

from advisor.event_rule import told
from advisor.finding import SEVERITIES, Evidence, Severity
from advisor.finding import Finding as Found
from advisor.text import Value
from advisor.xid_catalog import BY_RULE
from fleet.findings import lifecycle
from fleet.findings.models import Finding
from fleet.findings.witnesses import INVENTORY, Seen
from fleet.tuning.in_force import InForce

log = logging.getLogger(__name__)

RULES: Final = ("node-silent", "many-nodes-silent", "gpu-missing", "source-lagging", "source-frozen", "clock-skew")
MAINTENANCE: Final = gettext_noop("Somebody works on the node.")
"""The note of the transition that ends an alert because its node is in maintenance."""


@dataclass(slots=True)
class Alerts:
    """The open findings of the watch at one look, by rule and target; `seen` is the watch's memory, brought up to date by its checks."""

    at: datetime
    force: InForce
    seen: dict[str, float]
    open: dict[tuple[str, str], Severity] = field(default_factory=dict)
    """By rule and target the severity of what is open."""
    _asked: set[str] = field(default_factory=set)
    _opens: list[tuple[Found, lifecycle.Place, bool]] = field(default_factory=list)
    _ends: dict[str, str] = field(default_factory=dict)

    def read(self) -> None:
        """Read what is open."""
        rows = Finding.objects.filter(rule__in=RULES, resolved_at=None).values_list("rule", "target", "severity")
        self.open = {(rule, target): cast(Severity, severity) for rule, target, severity in rows}

    def of_rule(self, rule: str) -> set[str]:
        """The targets of the open findings of a rule."""
        return {target for known, target in self.open if known == rule}

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
    ) -> None:
        """Open the finding with what else this look opens, or let one that is open rise; nothing where the site has switched the rule off."""
        health = BY_RULE[rule]
        wanted = severity or health.severity
        held = self.open.get((rule, target))
        if rule in self.force.off or (held is not None and SEVERITIES.index(wanted) <= SEVERITIES.index(held)):
            return
        found = told(health, target, params, evidence, node=name, severity=wanted, summary=summary)
        place, shadow = lifecycle.Place(node, tuple(gpus)), rule in self.force.shadow
        if held is None:
            self._opens.append((found, place, shadow))
        else:
            lifecycle.report(self.at, found, place, shadow=shadow, seen={INVENTORY: Seen(self.at, self.at)})
        self.open[rule, target] = wanted

    def end(self, rule: str, target: str, note: str) -> None:
        """End an open finding on a certain word, with what else this look ends; nothing where there is none."""
        if self.open.pop((rule, target), None) is not None:
            self._ends[f"{rule}:{BY_RULE[rule].scope}:{target}"] = note

    def write(self) -> None:
        """Write what this look ends and opens, all at once: of a thousand nodes each by itself would be looked at beside all others."""
        if self._ends:
            lifecycle.end_all(self.at, self._ends)
        try:
            if self._opens:
                lifecycle.report_all(self.at, self._opens, INVENTORY)
        except IntegrityError:
            log.info("Another look opened some of these alerts; the next one looks again.")
