"""What happened to a job's GPUs and nodes while it ran, and what was found of them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.forms.models import model_to_dict

from fleet.findings.models import RANK, Finding
from fleet.inventory.models import Event
from fleet.jobs.models import Allocation, Job
from fleet.reports.spans import Held

MOST_EVENTS: Final = 200
MOST_FINDINGS: Final = 100
_OF_GPUS: Final = ("xid", "ecc", "gpu_lost", "gpu_back")
_OF_NODES: Final = ("sxid", "oom", "cpu", "memory", "pcie", "hardware", "driver", "changed")
_KEPT: Final = (
    "rule", "severity", "severity_rank", "scope", "target", "bottleneck", "confidence", "recoverable", "gpus_total", "gpu_hours_a_day",
    "condition", "advice", "content", "origin", "seen_total",
)  # fmt: skip
_TIMES: Final = ("opened_at", "last_seen_at", "resolved_at")


def events(held: Held) -> tuple[list[dict[str, Any]], int]:
    """The events of the job's GPUs, and those of its nodes that concern all of them, oldest first; and how many there are in all."""
    start, end = (datetime.fromtimestamp(at, UTC) for at in (held.start, held.end))
    nodes = Allocation.objects.filter(job=held.job, node__isnull=False).values("node")
    mine = Q(gpu__in=held.cards.values("pk")) | Q(gpu=None, kind__in=(*_OF_GPUS, *_OF_NODES))
    rows = Event.objects.filter(mine, node__in=nodes, observed_at__gte=start, observed_at__lte=end)
    rows = rows.filter(kind__in=(*_OF_GPUS, *_OF_NODES)).order_by("observed_at", "pk")
    return [
        {
            "at": event.observed_at.isoformat(),
            "kind": event.kind,
            "code": event.code,
            "severity": event.severity,
            "node": event.node.name,
            "gpu": event.gpu_id,
            "index": event.gpu.index if event.gpu else None,
            "text": event.text,
        }
        for event in rows.select_related("node", "gpu")[:MOST_EVENTS]
    ], rows.count()


def findings_of(job: Job) -> QuerySet[Finding]:
    """What was found of the job and of the GPUs that it held, while it ran: the strongest first."""
    cards = Allocation.objects.filter(job=job, gpu__isnull=False).values("gpu")
    of_it = Q(scope__in=("job", "service"), target=job.target) | Q(scope="gpu", gpus__in=cards)
    then = Q(resolved_at=None) | Q(resolved_at__gte=job.started_at)
    if job.ended_at is not None:
        then &= Q(opened_at__lt=job.ended_at)
    return Finding.objects.filter(of_it, then, shadow=False).order_by(*RANK, "id").distinct()


def kept_findings(job: Job) -> list[dict[str, Any]]:
    """The findings as the summary keeps them."""
    return [
        {
            "id": row.pk,
            **model_to_dict(row, fields=_KEPT),
            "node_name": row.node.name if row.node else None,
            **{name: value.isoformat() if (value := getattr(row, name)) else None for name in _TIMES},
        }
        for row in findings_of(job).select_related("node")[:MOST_FINDINGS]
    ]


def findings(job: Job, kept: Sequence[dict[str, Any]]) -> list[Finding]:
    """The findings as they are now, and those that are kept of the ones that are gone."""
    there = {row.pk: row for row in findings_of(job).select_related("node").prefetch_related("acknowledgements")[:MOST_FINDINGS]}
    gone = [_revived(one) for one in kept if one["id"] not in there]
    return [*there.values(), *gone]


def _revived(kept: dict[str, Any]) -> Finding:
    times = {name: datetime.fromisoformat(kept[name]) if kept[name] else None for name in _TIMES}
    return Finding(pk=kept["id"], fingerprint="", **{name: kept[name] for name in _KEPT}, **times)
