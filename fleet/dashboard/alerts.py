"""What fires now: alerts filtered, ordered and grouped, what follows from another folded under it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet
from django.utils import timezone

from advisor.finding import SEVERITIES
from fleet.accounts.plain_text import is_plain
from fleet.dashboard import tellings, words
from fleet.dashboard.listing import OPEN, Line, line
from fleet.findings.models import Finding
from fleet.notify import quieting
from fleet.notify.alert_labels import labels_of
from fleet.notify.decisions import Alert, why_quiet
from fleet.notify.matchers import fits
from fleet.notify.models import LABELS, Acknowledgement, Delivery

LEAST: Final = "warn"
FOLDED: Final = 20
"""Consequences named under one cause; more are counted."""
SORTS: Final[Mapping[str, tuple[str, ...]]] = {
    "severity": ("-severity_rank", "condition", "-opened_at"),
    "newest": ("-opened_at",),
    "oldest": ("opened_at",),
    "node": ("node__name", "-severity_rank"),
    "rule": ("rule", "-severity_rank"),
}
BY: Final = {"node": "node__name", "rule": "rule"}
COLUMNS: Final = ("severity", "rule", "node")
"""Labels that have a filter of their own."""
FILTERS: Final = ("least", "rule", "node", "label", "value", "acknowledged", "told", "sort", "by")


@dataclass(slots=True)
class Row:
    """One alert on the page."""

    line: Line
    telling: tellings.Telling
    quiet: str = ""
    acknowledged: Acknowledgement | None = None
    folded: list[Line] = field(default_factory=list)
    folded_total: int = 0


def looked_after() -> Exists:
    """Of a finding: somebody looks after it as it is now."""
    return Exists(Acknowledgement.objects.filter(finding=OuterRef("pk"), severity_rank__gte=OuterRef("severity_rank")))


def unacknowledged() -> int:
    """Alerts of warn and critical that nobody looks after and that follow from no other: the number beside “Alerts”."""
    serious = Finding.objects.filter(~looked_after(), OPEN, severity_rank__gte=SEVERITIES.index(LEAST))
    return serious.filter(_stands_alone(Finding.objects.filter(OPEN))).count()


def _stands_alone(causes: QuerySet[Finding]) -> Q:
    """What none of the causes explains; a milder one explains nothing, for a route may leave it out (routing.told_cause)."""
    milder = Q(cause__severity_rank__lt=F("severity_rank"))
    return Q(cause=None) | ~Q(cause__in=causes.order_by().values("pk")) | milder


def filtered(asked: Mapping[str, str]) -> tuple[QuerySet[Finding], dict[str, str]]:
    """The alerts that the query string asks for, and the filters as they were understood."""
    chosen = {name: asked.get(name, "").strip()[:300] for name in FILTERS}
    if not all(map(is_plain, chosen.values())):  # nothing has such a name, and PostgreSQL takes no NUL
        return Finding.objects.none(), dict.fromkeys(FILTERS, "") | {"least": LEAST, "sort": "severity"}
    chosen["least"] = chosen["least"] if chosen["least"] in SEVERITIES else LEAST
    chosen["sort"] = chosen["sort"] if chosen["sort"] in SORTS else "severity"
    chosen["by"] = chosen["by"] if chosen["by"] in BY else ""
    rows = Finding.objects.filter(OPEN, severity_rank__gte=SEVERITIES.index(chosen["least"]))
    if chosen["rule"]:
        rows = rows.filter(rule=chosen["rule"])
    if chosen["node"]:
        rows = rows.filter(node__name=chosen["node"])
    if chosen["acknowledged"] in ("yes", "no"):
        rows = rows.filter(looked_after() if chosen["acknowledged"] == "yes" else ~looked_after())
    if chosen["told"] in ("yes", "no"):
        sent = Delivery.objects.filter(transition__finding=OuterRef("pk"), transition__axis="condition", state="sent")
        rows = rows.filter(Exists(sent) if chosen["told"] == "yes" else ~Exists(sent))
    if chosen["label"] in LABELS and chosen["value"]:
        matcher = {"label": chosen["label"], "op": "in", "values": [chosen["value"]]}
        several = list(rows.select_related("node").defer("content"))
        labels = labels_of(several, timezone.now())
        rows = rows.filter(pk__in=[one.pk for one in several if fits([matcher], labels[one.pk])])
    return rows, chosen


def tops(rows: QuerySet[Finding], sort: str) -> QuerySet[Finding]:
    """Those of the alerts that follow from no other of them, in order."""
    return rows.filter(_stands_alone(rows)).select_related("node", "cause").prefetch_related("gpus").order_by(*SORTS[sort], "pk")


def shown(findings: Sequence[Finding], at: datetime) -> list[Row]:
    """The alerts with who was told, what keeps them quiet, who looks after them, and what follows from each; in a fixed number of queries."""
    keys = [one.pk for one in findings]
    telling = tellings.of(keys)
    labels = labels_of(findings, at)
    quiet = quieting.now(at)
    newest = Acknowledgement.objects.filter(finding__in=keys).order_by("at", "pk")
    looked_after = {one.finding_id: one for one in newest}
    found = []
    for one in findings:
        row = Row(line(one, with_gpus=True), telling[one.pk])
        alert = Alert(one.pk, one.condition, one.severity_rank, labels[one.pk])
        row.quiet = str(why_quiet(alert, quiet) or "")
        said = looked_after.get(one.pk)
        row.acknowledged = said if said and said.severity_rank >= one.severity_rank else None
        found.append(row)
    _fold(found)
    return found


def _fold(rows: Sequence[Row]) -> None:
    """Put what fires and follows from an alert under it: also what follows from that, some steps down."""
    top = {row.line.finding.pk: row for row in rows}
    of_top = {pk: pk for pk in top}
    level = list(top)
    for _step in range(4):
        below = (
            Finding.objects.filter(OPEN, cause__in=level, cause__severity_rank__gte=F("severity_rank"))
            .exclude(pk__in=list(of_top))
            .select_related("node")
        )
        found = list(below.prefetch_related("gpus").order_by("-severity_rank", "opened_at", "pk")[:2000])
        for one in found:
            if one.cause_id is not None and one.pk not in of_top:
                of_top[one.pk] = of_top[one.cause_id]
                row = top[of_top[one.pk]]
                row.folded_total += 1
                if len(row.folded) < FOLDED:
                    row.folded.append(line(one, with_gpus=True))
        level = [one.pk for one in found]
        if not level:
            return


def summaries(rows: QuerySet[Finding], by: str) -> QuerySet[Any, dict[str, Any]]:
    """One row for each node or rule: how many alerts it has, of them the critical ones and those that nobody looks after, and since when."""
    grouped: Any = rows.order_by().annotate(looked_after=looked_after()).values(name=F(BY[by]))
    counted: QuerySet[Any, dict[str, Any]] = grouped.annotate(
        total=Count("pk"),
        critical=Count("pk", filter=Q(severity="critical")),
        open=Count("pk", filter=Q(looked_after=False)),
        since=Min("opened_at"),
        worst=Max("severity_rank"),
    ).order_by("-worst", "-total", "name")
    return counted


def with_words(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `summaries` with its worst severity in words."""
    slug = SEVERITIES[row["worst"]]
    return {**row, "severity": slug, "word": words.word(words.SEVERITY, slug)}
