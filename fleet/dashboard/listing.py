"""Findings as lists: which are open, filtered, grouped so that eight GPUs of one node are one line."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Count, Q, QuerySet

from advisor.finding import SEVERITIES
from fleet.dashboard import words
from fleet.findings.content import Rendered, render
from fleet.findings.models import Finding

OPEN: Final = Q(resolved_at=None, condition__in=("firing", "noisy"))
"""What people are told of: a pending condition has not lasted long enough to say so."""
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
    gpus: tuple[int, ...] = ()  # their indices


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
        gpus=tuple(sorted(gpu.index for gpu in finding.gpus.all())) if with_gpus else (),
    )


def grouped(findings: QuerySet[Finding]) -> list[Line]:
    """The strongest LOOKED_AT findings, those of one rule on one node drawn together: firing ones first, then noisy ones."""
    lines: dict[tuple[str, int | None, str, str], Line] = {}
    for finding in findings.select_related("node").order_by("condition", "-severity_rank", "-recoverable", "rule")[:LOOKED_AT]:
        key = (finding.rule, finding.node_id, finding.severity, finding.condition)
        if key in lines:
            lines[key].total += 1
        else:
            lines[key] = line(finding)
    return list(lines.values())


def severity_counts() -> tuple[list[dict[str, Any]], int]:
    """Firing findings of each severity, the gravest first (a severity without any is there with 0); and how many are noisy."""
    rows = Finding.objects.filter(OPEN).values_list("severity", "condition").annotate(total=Count("id")).order_by()
    firing = {severity: total for severity, condition, total in rows if condition == "firing"}
    noisy = sum(total for _, condition, total in rows if condition == "noisy")
    return [
        {"slug": slug, "word": words.word(words.SEVERITY, slug), "total": firing.get(slug, 0)} for slug in reversed(SEVERITIES)
    ], noisy


FILTERS: Final = ("severity", "rule", "node", "condition")


def filtered(asked: Mapping[str, str]) -> tuple[QuerySet[Finding], dict[str, str]]:
    """The findings that the query string asks for, and the filters that were understood."""
    chosen = {name: asked.get(name, "").strip() for name in FILTERS}
    state = asked.get("state", "open")
    chosen["state"] = state if state in ("open", "resolved", "all") else "open"
    findings = Finding.objects.all()
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
