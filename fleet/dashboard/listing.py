"""Findings as lists: which are open, filtered, grouped so that eight GPUs of one node are one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Case, CharField, Count, F, Q, QuerySet, Sum, Value, When

from advisor.finding import SEVERITIES
from fleet.accounts.plain_text import is_plain
from fleet.dashboard import words
from fleet.findings import cost
from fleet.findings.content import Rendered, render
from fleet.findings.models import RANK, Finding
from fleet.findings.targets import names

OPEN: Final = Q(resolved_at=None, condition__in=("firing", "noisy"), shadow=False)
"""What people are told of: a pending condition has not lasted long enough to say so, and rules in shadow say nothing."""
LOOKED_AT: Final = 200


@dataclass(slots=True)
class Line:
    """One rule on one node, standing for every such finding; `finding` is the strongest of them."""

    finding: Finding
    text: Rendered
    total: int = 1
    severity: str = ""
    bottleneck: str = ""
    condition: str = ""
    condition_means: str = ""
    advice: str = ""
    gpu_hours_a_day: float | None = None  # of all its findings; None: not known of any
    cost: str = ""  # in a sentence; empty where there is nothing to win back, or nobody knows how much
    gpus: tuple[int, ...] = ()  # their indices
    since: datetime | None = None
    members: tuple["Line", ...] = ()  # each finding by itself, where the line stands for several
    target: str = ""  # what its target is called; `opened` and the finding's page say it


def line(finding: Finding, with_gpus: bool = False) -> Line:
    """The finding with its texts in the reader's language; `with_gpus` reads the GPUs too, so prefetch them."""
    return Line(
        finding,
        render(finding),
        severity=words.word(words.SEVERITY, finding.severity),
        bottleneck=words.word(words.BOTTLENECK, finding.bottleneck) if finding.bottleneck else "",
        condition=words.word(words.CONDITION, finding.condition),
        condition_means=str(words.NOISY_MEANS) if finding.condition == "noisy" else "",
        advice=words.word(words.ADVICE, finding.advice),
        gpu_hours_a_day=finding.gpu_hours_a_day,
        cost=cost.sentence(finding.gpu_hours_a_day),
        gpus=tuple(sorted(gpu.index for gpu in finding.gpus.all())) if with_gpus else (),
        since=finding.opened_at,
    )


def grouped(findings: QuerySet[Finding]) -> list[Line]:
    """The strongest LOOKED_AT findings, those of one rule on one node drawn together: firing ones first, then noisy ones."""
    lines: dict[tuple[str, int | None, str, str], Line] = {}
    for finding in findings.select_related("node").order_by("condition", *RANK)[:LOOKED_AT]:
        key = (finding.rule, finding.node_id, finding.severity, finding.condition)
        if key in lines:
            lines[key].total += 1
            _add_hours(lines[key], finding)
        else:
            lines[key] = line(finding)
    return sorted(lines.values(), key=_rank)


def _add_hours(one: Line, finding: Finding) -> None:
    """Count the GPU-hours of another finding that the line stands for."""
    if finding.gpu_hours_a_day is not None:
        one.gpu_hours_a_day = (one.gpu_hours_a_day or 0.0) + finding.gpu_hours_a_day
        one.cost = cost.sentence(one.gpu_hours_a_day)


def _rank(one: Line) -> tuple[str, bool, float, int, str]:
    """As RANK, by the GPU-hours of all that the line stands for; noisy lines come last."""
    finding, hours = one.finding, one.gpu_hours_a_day
    known = -1.0 if hours is None else hours
    return (finding.condition, finding.severity != "critical", -known, -finding.severity_rank, finding.rule)


def severity_counts() -> tuple[list[dict[str, Any]], int]:
    """Firing findings of each severity, the gravest first (a severity without any is there with 0); and how many are noisy."""
    rows = Finding.objects.filter(OPEN).values_list("severity", "condition").annotate(total=Count("id")).order_by()
    firing = {severity: total for severity, condition, total in rows if condition == "firing"}
    noisy = sum(total for _, condition, total in rows if condition == "noisy")
    return [
        {"slug": slug, "word": words.word(words.SEVERITY, slug), "total": firing.get(slug, 0)} for slug in reversed(SEVERITIES)
    ], noisy


def _where() -> Case:
    """What tells targets of no single node apart; of one node's findings the node is enough."""
    return Case(When(node=None, then=F("target")), default=Value(""), output_field=CharField())


GROUP: Final = ("rule", "node", "severity", "condition", "where")


BY_NAME: Final = ("rule", "node__name", "condition", "where")


def groups(findings: QuerySet[Finding]) -> "QuerySet[Finding, dict[str, Any]]":
    """One row for each rule, node, severity and condition, with how many findings it stands for; ranked as RANK, by all their GPU-hours."""
    rows: QuerySet[Finding, dict[str, Any]] = (
        findings.order_by()
        .annotate(where=_where())
        .values(*GROUP, "severity_rank")
        .annotate(total=Count("id", distinct=True), hours=Sum("gpu_hours_a_day"))
        .annotate(grave=Case(When(severity="critical", then=0), default=1))
        .order_by("grave", F("hours").desc(nulls_last=True), "-severity_rank", *BY_NAME)
    )
    return rows


def opened(findings: QuerySet[Finding], rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    """The rows of `groups` as lines, each with its `members`."""
    wanted = Q(pk__in=())
    for row in rows:
        wanted |= Q(**{name: row[name] for name in GROUP if name != "where" and row[name] is not None}, where=row["where"])
    found: dict[tuple[Any, ...], list[Finding]] = {}
    for finding in findings.annotate(where=_where()).filter(wanted).select_related("node").prefetch_related("gpus"):
        where = "" if finding.node_id else finding.target
        found.setdefault((finding.rule, finding.node_id, finding.severity, finding.condition, where), []).append(finding)
    lines = [
        gathered(members) for row in rows if (members := found.get((row["rule"], row["node"], *(row[key] for key in GROUP[2:]))))
    ]
    every = [one for first in lines for one in (first, *first.members)]
    called = names((one.finding.scope, one.finding.target) for one in every)
    for one in every:
        one.target = called[one.finding.scope, one.finding.target]
    return lines


def gathered(findings: Sequence[Finding]) -> Line:
    """One line for findings of one kind, the strongest first; several become its members, in the order of their GPUs."""
    first = line(findings[0], with_gpus=True)
    first.total = len(findings)
    first.since = min(finding.opened_at for finding in findings)
    for finding in findings[1:]:
        _add_hours(first, finding)
    if first.total > 1:
        members = [line(finding, with_gpus=True) for finding in findings]
        first.members = tuple(sorted(members, key=lambda member: (member.gpus, member.finding.target)))
        first.gpus = tuple(sorted({gpu for member in members for gpu in member.gpus}))
        first.advice = ", ".join(dict.fromkeys(member.advice for member in first.members))
    return first


FILTERS: Final = ("severity", "rule", "node", "condition")
STATES: Final = ("open", "resolved", "all")


def filtered(asked: Mapping[str, str]) -> tuple[QuerySet[Finding], dict[str, str]]:
    """The findings that the query string asks for, and the filters that were understood."""
    chosen = {name: asked.get(name, "").strip() for name in FILTERS}
    if not all(map(is_plain, chosen.values())):  # no rule or node has such a name, and PostgreSQL takes no NUL
        return Finding.objects.none(), chosen | {"state": "open"}
    state = asked.get("state", "open")
    chosen["state"] = state if state in STATES else "open"
    findings = Finding.objects.filter(shadow=False)
    if chosen["state"] == "open":
        findings = findings.filter(resolved_at=None)
    elif chosen["state"] == "resolved":
        findings = findings.filter(resolved_at__isnull=False).order_by("-resolved_at")
    if chosen["severity"]:
        findings = findings.filter(severity=chosen["severity"])
    if chosen["rule"]:
        findings = findings.filter(rule=chosen["rule"])
    if chosen["node"]:
        findings = findings.filter(node__name=chosen["node"])
    if chosen["condition"]:
        findings = findings.filter(condition=chosen["condition"])
    return findings, chosen
