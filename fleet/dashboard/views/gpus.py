"""One GPU: charts, bottleneck, identity, what it cannot say, its findings."""

import time
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from advisor.links import nvlink_rate
from fleet.dashboard import bench, cells, charts, facts, health, holding, readings, words
from fleet.dashboard.listing import OPEN, line
from fleet.dashboard.templatetags.units import duration
from fleet.dashboard.usual_power import usual_power
from fleet.findings.models import Diagnosis
from fleet.inventory.models import Gpu
from fleet.store import clock
from fleet.store.series import StoreError

SPANS: Final = {10: 2, 60: 10, 360: 60, 1440: 240, 10_080: 1_200, 43_200: 3_600}
"""How many minutes back a chart may look, and the seconds of one bucket there."""
HOUR: Final = 60


@login_required
@require_safe
def gpu(request: HttpRequest, gpu_id: int) -> HttpResponse:
    """The page `/gpus/<id>/`; its charts come by `series`."""
    found = get_object_or_404(Gpu.objects.select_related("node", "diagnosis"), pk=gpu_id)
    stale = found.node.is_stale or not found.present
    absences = [row for row in cells.open_absences(found.node_id) if row.gpu_id == found.pk]
    row = {} if stale else readings.newest("gpu", [found.pk]).get(found.pk)
    return render(
        request,
        "dashboard/gpu.html",
        {
            "section": "fleet",
            "gpu": found,
            "node": found.node,
            "parent": Gpu.objects.filter(node=found.node_id, uuid=found.parent_uuid).first() if found.parent_uuid else None,
            "nvlink_rate": nvlink_rate(found.compute_capability, found.nvlink_bytes_per_s_per_link),
            "stale": stale,
            "silent": stale or not row,
            "recordings": int(bool(found.node.recording)),
            "now": cells.cells("gpu", cells.GPU_COLUMNS, row or None, cells.reasons(absences), found.pk, stale),
            "health": health.facts(row or None, cells.reasons(absences), found.pk, stale),
            "facts": [facts.of_gpu(found, found.node)],
            "labels": facts.labels(found),
            "usual_power": usual_power(found.model, timezone.now()),
            "diagnosis": diagnosis(getattr(found, "diagnosis", None)),
            "unjudged": words.UNJUDGED,
            "charts": charts.GPU_CHARTS,
            "spans": [(minutes, duration(minutes * 60)) for minutes in SPANS],
            "hour": HOUR,
            "holders": [] if stale else holding.rows([found]),
            "shared_means": words.SHARED_MEANS,
            "absences": cells.absence_rows(absences),
            "bench": bench.rows(found, timezone.now()),
            "findings": [line(finding) for finding in found.findings.filter(OPEN).select_related("node")],
        },
    )


def diagnosis(row: Diagnosis | None) -> dict[str, Any] | None:
    """The bottleneck with its shares, largest first; None where nothing was judged yet."""
    if row is None:
        return None
    shares = row.shares if isinstance(row.shares, dict) else {}
    numbers = [(slug, share) for slug, share in shares.items() if isinstance(share, int | float) and share > 0]
    return {
        "row": row,
        "slug": row.bottleneck or "unknown",
        "word": words.word(words.BOTTLENECK, row.bottleneck),
        "means": words.word(words.BOTTLENECK_MEANS, row.bottleneck),
        "confidence": words.word(words.CONFIDENCE, row.confidence) if row.confidence else "",
        "shares": [
            {"slug": slug, "word": words.word(words.BOTTLENECK, slug), "share": share}
            for slug, share in sorted(numbers, key=lambda pair: -pair[1])
        ],
    }


@login_required
@require_safe
def series(request: HttpRequest, gpu_id: int) -> JsonResponse:
    """The figures of the last hour (or `minutes`), for Plotly; `missing` says why a line is not there."""
    found = get_object_or_404(Gpu, pk=gpu_id)
    asked = request.GET.get("minutes", "")
    minutes = next((minutes for minutes in SPANS if str(minutes) == asked), HOUR)
    step_s = SPANS[minutes]
    end = int(time.time())
    start = end - minutes * 60
    try:
        frame = clock.series("gpu", found.pk, charts.GPU_METRICS, start, end, step_s)
    except StoreError:
        return JsonResponse({"error": "store"}, status=503)
    why = cells.reasons(row for row in cells.open_absences(found.node_id) if row.gpu_id == found.pk)
    missing = [
        {"metric": words.metric(name), "reason": why.get((found.pk, name), str(words.NOT_MEASURED))}
        for name in charts.GPU_METRICS
        if name not in frame.columns or frame[name].null_count() == frame.height
    ]
    response = JsonResponse({"figures": charts.gpu_figures(frame, start, end, step_s), "missing": missing})
    response["Cache-Control"] = "no-store"
    return response
