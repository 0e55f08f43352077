"""The catalogue: every rule there is, shipped, of events or the site's own, with its state and what it has found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from django.db.models import Count
from django.utils.translation import gettext

from advisor import rule as shipped
from advisor import xid_catalog
from advisor.event_rule import BY_EVENTS
from advisor.rule import Rule
from advisor.spelled import spelled
from advisor.xid_catalog import Health
from fleet.findings.models import Finding, Opened
from fleet.tuning import own_rules
from fleet.tuning.models import Override, OwnRule, RuleState

KINDS: Final = ("shipped", "event", "own")


@dataclass(frozen=True, slots=True)
class Entry:
    """One rule as the catalogue lists it; `severity` is empty where the evidence decides."""

    id: str
    kind: Literal["shipped", "event", "own"]
    scope: str
    group: str
    severity: str
    bottleneck: str
    title: str
    summary: str
    state: str
    findings_open: int = 0
    shadow_open: int = 0
    opened_total: int = 0
    overrides_total: int = 0
    rule: Rule | None = None  # None: of events alone, or an own rule that is none any more
    health: Health | None = None
    own: OwnRule | None = None


def entries() -> list[Entry]:
    """Every rule, by id."""
    found = [*_shipped(), *_of_events(), *_own()]
    states = dict(RuleState.objects.values_list("rule", "state"))
    firing, shadow = _open(shadow=False), _open(shadow=True)
    opened = dict(Opened.objects.values_list("rule", "total"))
    overrides = dict(Override.objects.order_by().values_list("rule").annotate(total=Count("pk")))
    return sorted(
        (
            Entry(
                **said,  # type: ignore[arg-type] # of several types
                state=states.get(str(said["id"]), "off" if said["kind"] == "own" else "on"),
                findings_open=firing.get(str(said["id"]), 0),
                shadow_open=shadow.get(str(said["id"]), 0),
                opened_total=opened.get(str(said["id"]), 0),
                overrides_total=overrides.get(str(said["id"]), 0),
            )
            for said in found
        ),
        key=lambda entry: entry.id,
    )


def entry(rule: str) -> Entry | None:
    """The rule of that id; None where there is none."""
    return next((one for one in entries() if one.id == rule), None)


def when(entry: Entry, overrides: Mapping[str, float]) -> dict[str, str]:
    """Its conditions in SQL, by `opens`, `clears` and `unless`, with the values in force on the whole site; none of events alone."""
    rule = entry.rule
    if rule is None:
        return {}
    if entry.own is not None:  # as it was written
        return {"opens": entry.own.opens, "clears": entry.own.clears}
    values = in_words(rule, overrides)
    parts = {"opens": rule.opens, "clears": rule.clears, "unless": rule.unless}
    return {name: spelled(part, values) for name, part in parts.items() if part is not None}


def in_words(rule: Rule, overrides: Mapping[str, float]) -> dict[str, str]:
    """The values of its thresholds on the whole site, as conditions are spelled with them."""
    return {one.name: f"{overrides.get(one.name, one.default):.12g}" for one in rule.thresholds}


def sources_of(health: Health) -> tuple[str, ...]:
    """What a rule of events rests on; none of what the server sees itself."""
    return health.sources or (xid_catalog.SOURCES if health.opens == BY_EVENTS else ())


def _open(*, shadow: bool) -> dict[str, int]:
    rows = Finding.objects.filter(resolved_at=None, shadow=shadow, condition__in=("firing", "noisy"))
    return dict(rows.order_by().values_list("rule").annotate(total=Count("pk")))


def _shipped() -> list[dict[str, object]]:
    return [
        {
            "id": rule.id,
            "kind": "shipped",
            "scope": rule.scope,
            "group": rule.group,
            "severity": rule.severity if isinstance(rule.severity, str) else "",
            "bottleneck": rule.bottleneck or "",
            "title": gettext(rule.title),
            "summary": gettext(rule.summary),
            "rule": rule,
        }
        for rule in shipped.load()
    ]


def _of_events() -> list[dict[str, object]]:
    judged = {rule.id for rule in shipped.load()}
    return [
        {
            "id": health.rule,
            "kind": "event",
            "scope": health.scope,
            "group": health.group,
            "severity": health.severity,
            "bottleneck": "",
            "title": gettext(health.title),
            "summary": gettext(health.summary),
            "health": health,
        }
        for health in xid_catalog.HEALTH
        if health.rule not in judged
    ]


def _own() -> list[dict[str, object]]:
    return [
        {
            "id": row.slug,
            "kind": "own",
            "scope": row.scope,
            "group": row.group,
            "severity": row.severity,
            "bottleneck": "",
            "title": row.title,
            "summary": row.summary,
            "rule": _as_rule(row),
            "own": row,
        }
        for row in OwnRule.objects.all()
    ]


def _as_rule(row: OwnRule) -> Rule | None:
    try:
        return own_rules.as_rule(row)
    except own_rules.OwnRuleError:
        return None
