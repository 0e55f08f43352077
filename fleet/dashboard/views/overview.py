"""The fleet at a glance, and the JSON from which the heat map draws its first frame."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import Count
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from fleet.dashboard import readings, words
from fleet.dashboard.listing import OPEN, grouped, severity_counts
from fleet.dashboard.templatetags.units import count
from fleet.findings.models import Diagnosis, Finding
from fleet.inventory.models import STALE_AFTER, Node
from fleet.slow.coverage import covered

NODES_A_PAGE = 50
STRONGEST = 8


@login_required
@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """The page `/`: numbers, heat map, strongest findings, bottleneck spread, nodes."""
    snapshot = readings.fleet.snapshot()
    summary = readings.summarise(snapshot)
    page = Paginator(snapshot.nodes, NODES_A_PAGE).get_page(request.GET.get("page"))
    severities, noisy = severity_counts()
    return render(
        request,
        "dashboard/overview.html",
        {
            "section": "fleet",
            "summary": summary,
            "power_from": str(words.POWER_FROM).replace("{from}", count(summary.power_from)).replace("{of}", count(summary.gpus)),
            "nodes": len(snapshot.nodes),
            "silent": filled(words.SILENT, len(snapshot.silent)),
            "unmeasured": filled(words.UNMEASURED, summary.unmeasured),
            "severities": severities,
            "noisy": noisy,
            "covered": coverage_parts(),
            "noisy_means": words.NOISY_MEANS,
            "as_of": timezone.now(),
            "strongest": grouped(Finding.objects.filter(OPEN))[:STRONGEST],
            "spread": spread(len(snapshot.gpus)),
            "page": page,
            "rows": node_rows(list(page.object_list), snapshot),
            "recordings": sum(1 for node in snapshot.nodes if node.recording),
            "words": {
                "absent": words.first_upper(str(words.NOT_MEASURED)),
                "stale": str(words.UNKNOWN_SINCE),
                "recording": str(words.RECORDING),
                "power_from": str(words.POWER_FROM),
                "silent": str(words.SILENT),
                "unmeasured": str(words.UNMEASURED),
                "metrics": {name: words.metric(name) for name in readings.MAP_METRICS},
            },
        },
    )


def filled(text: object, total: int) -> str:
    """The text with its number, as the page's script fills it too; empty when there is none."""
    return str(text).replace("{total}", count(total)) if total else ""


def coverage_parts() -> list[dict[str, Any]]:
    """Of the last hour's work the parts that are known to be whose, in per cent; none where nothing was measured."""
    found = covered(timezone.now())
    shares = [] if found is None else [(found.busy_pct(whose), word) for whose, word in words.COVERED.items()]
    return [{"share": share / 100, "word": word} for share, word in shares if share is not None]


@gzip_page  # a megabyte at ten thousand GPUs
@login_required
@require_safe
def heat_map(request: HttpRequest) -> JsonResponse:
    """Every GPU with its newest values, in columns."""
    response = JsonResponse(readings.heat_map(readings.fleet.snapshot()))
    response["Cache-Control"] = "no-store"
    return response


def spread(gpus: int) -> list[dict[str, Any]]:
    """How many GPUs each bottleneck holds, largest first; GPUs without a diagnosis of now count as unknown."""
    counts = (
        Diagnosis.objects.filter(scope="gpu", gpu__present=True, node__last_seen_at__gte=timezone.now() - STALE_AFTER)
        .exclude(bottleneck="")
        .values_list("bottleneck")
        .annotate(total=Count("id"))
        .order_by("-total", "bottleneck")
    )
    found = [(slug, total) for slug, total in counts]
    unknown = gpus - sum(total for _, total in found)
    return [
        {
            "slug": slug or "unknown",
            "word": words.word(words.BOTTLENECK, slug),
            "means": words.word(words.BOTTLENECK_MEANS, slug),
            "total": total,
            "share": total / gpus if gpus else 0,
        }
        for slug, total in [*found, ("", unknown)]
        if total > 0
    ]


def node_rows(nodes: Sequence[Node], snapshot: readings.Snapshot) -> list[dict[str, Any]]:
    """One row a node of the page: its GPUs, what they do together, its open findings."""
    numbers = readings.by_node(snapshot)
    gpus: dict[int, int] = {}
    for _, node_id, _ in snapshot.gpus:
        gpus[node_id] = gpus.get(node_id, 0) + 1
    counted = (
        Finding.objects.filter(OPEN, node__in=[node.pk for node in nodes])
        .values_list("node", "condition")
        .annotate(total=Count("id"))
        .order_by()
    )
    totals = {(node, condition): total for node, condition, total in counted}
    return [
        {
            "node": node,
            "gpus": gpus.get(node.pk, 0),
            "findings": totals.get((node.pk, "firing"), 0),
            "noisy": totals.get((node.pk, "noisy"), 0),
            **{name: numbers.get(node.pk, {}).get(name) for name in ("busy", "known", "sm_active", "power_w")},
        }
        for node in nodes
    ]
