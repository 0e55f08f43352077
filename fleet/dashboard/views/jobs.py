"""Jobs: the list with its search, and the report of one."""

from datetime import UTC, datetime
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from fleet.accounts.plain_text import is_plain
from fleet.dashboard import job_words, words
from fleet.dashboard.job_timeline import drawn
from fleet.dashboard.listing import Line, line
from fleet.inventory.models import Node
from fleet.jobs.called import called
from fleet.jobs.models import END_STATES, STATES, Allocation, Job
from fleet.reports.happened import findings
from fleet.reports.summaries import Report, report
from fleet.reports.words import why
from fleet.slow.models import JobRun
from fleet.store.series import StoreError

A_PAGE: Final = 50
FILTERS: Final = ("user", "name", "family", "node", "state")


@login_required
@require_safe
def jobs(request: HttpRequest) -> HttpResponse:
    """The page `/jobs/`."""
    chosen = {name: request.GET.get(name, "").strip()[:300] for name in FILTERS}
    found = searched(chosen)
    page = Paginator(found, A_PAGE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    now = timezone.now()
    return render(
        request,
        "dashboard/jobs.html",
        {
            "section": "jobs",
            "rows": [row(job, now) for job in page.object_list],
            "page": page,
            "total": page.paginator.count,
            "chosen": chosen,
            "any_chosen": any(chosen.values()),
            "query": query.urlencode(),
            "states": [("open", job_words.OPEN), *((slug, job_words.STATE[slug]) for slug in STATES)],
        },
    )


def searched(chosen: dict[str, str]) -> QuerySet[Job]:
    """The jobs asked for, the newest first: users and nodes by their whole name, names, ids and families by a part."""
    if not all(map(is_plain, chosen.values())):  # no job has such a name, and PostgreSQL takes no NUL
        return Job.objects.none()
    rows = Job.objects.select_related("summary").defer("summary__document").annotate(own_gpus=F("summary__document__gpus"))
    rows = rows.order_by("-started_at", "-pk")
    if chosen["user"]:
        rows = rows.filter(user__iexact=chosen["user"])
    if chosen["name"]:
        rows = rows.filter(Q(name__icontains=chosen["name"]) | called(chosen["name"], "icontains"))
    if chosen["family"]:
        rows = rows.filter(family__icontains=chosen["family"])
    if chosen["node"]:
        named = Q(node_name__iexact=chosen["node"]) | Q(node__name__iexact=chosen["node"])
        rows = rows.filter(pk__in=Allocation.objects.filter(named).values("job"))
    if chosen["state"] == "open":
        rows = rows.filter(ended_at=None)
    elif chosen["state"]:
        rows = rows.filter(state=chosen["state"])
    return rows


def row(job: Job, now: datetime) -> dict[str, Any]:
    """One line of the list; figures are those of the summary, absent before the first one."""
    summary = getattr(job, "summary", None)
    idle = None
    if summary is not None and summary.idle_gpu_hours is not None and summary.gpu_hours:
        idle = summary.idle_gpu_hours / summary.gpu_hours
    return {
        "job": job,
        "state": job_words.STATE.get(job.state, job.state),
        "bad": job.state in END_STATES and job.state not in ("completed", "ended"),
        "ran_s": ((job.ended_at or now) - job.started_at).total_seconds(),
        "summary": summary,
        "gpus": job.gpus_total if job.gpus_total is not None else getattr(job, "own_gpus", None),
        "bottleneck": words.word(words.BOTTLENECK, summary.bottleneck) if summary is not None else "",
        "idle": idle,
    }


@login_required
@require_safe
def job(request: HttpRequest, job_id: int) -> HttpResponse:
    """The page `/jobs/<id>/`."""
    found = get_object_or_404(Job, pk=job_id)
    now = timezone.now()
    try:
        made = report(found, now)
    except StoreError:
        made = None
    more = shown(found, made) if made is not None else {}
    nodes = sorted(set(found.allocations.values_list("node_name", flat=True)))
    return render(
        request,
        "dashboard/job.html",
        {
            "section": "jobs",
            "job": found,
            "row": row(found, now),
            "source": job_words.SOURCE.get(found.source, found.source),
            "family_known": JobRun.objects.filter(program=found.family).exists(),
            "runs": Job.objects.filter(cluster=found.cluster, job_id=found.job_id).count(),
            "recordings": Node.objects.filter(name__in=nodes).exclude(recording="").count(),
            "nodes_known": set(Node.objects.filter(name__in=nodes[:64]).values_list("name", flat=True)),
            "made": made,
            **more,
        },
    )


def shown(found: Job, made: Report) -> dict[str, Any]:
    """What the page shows of the report."""
    told = made.document
    price = told["price"]
    shares = sorted(told["shares"].items(), key=lambda item: -item[1])
    return {
        "told": told,
        "cost": None if price is None else told["gpu_hours"] * price,
        "idle_share": _part(told["idle_gpu_hours"], told["gpu_hours"]),
        "unheld_share": _part(told["unheld_gpu_hours"], told["gpu_hours"]),
        "idle_floor": " / ".join(f"{one['watts']:.0f} W" for one in told.get("idle_power_floors", ())),
        "partly": told["coverage"] < 0.995,
        "energy_partly": told["energy_j"] is not None and told["energy_coverage"] < 0.995,
        "verdict": words.word(words.BOTTLENECK, told["bottleneck"]),
        "means": words.word(words.BOTTLENECK_MEANS, told["bottleneck"]),
        "confidence": words.word(words.CONFIDENCE, told["confidence"]) if told["confidence"] else "",
        "shares": [
            {"slug": slug, "word": words.word(words.BOTTLENECK, slug), "means": words.word(words.BOTTLENECK_MEANS, slug), "share": share}
            for slug, share in shares
            if share >= 0.005
        ],
        "timeline": drawn(told["bins"], told["since"], told["until"]),
        "judged_pct": _judged(told),
        "quantiles": [
            {"name": name, "label": job_words.QUANTILE.get(name, name), "values": told["quantiles"].get(name), "why": why(told["absent"].get(f"quantiles.{name}", ""))}
            for name in job_words.QUANTILE
        ],
        "ranks": told["ranks"],
        "why_no_ranks": why(told["absent"].get("ranks", "")),
        "why_no_label": why(told["absent"].get("bottleneck", "")),
        "findings": [_finding(one) for one in findings(found, told["findings"])],
        "events": [
            {
                **one,
                "at": datetime.fromisoformat(one["at"]).astimezone(UTC),
                "kind": words.word(words.EVENT, one["kind"]),
                "severity_word": words.word(words.SEVERITY, one["severity"]),
            }
            for one in told["events"]
        ],
        "absent": [(job_words.PART.get(name, name), why(slug)) for name, slug in told["absent"].items() if name in job_words.PART],
    }  # fmt: skip


def _part(hours: float | None, of: float) -> float | None:
    return hours / of if hours is not None and of else None


def _judged(told: dict[str, Any]) -> float | None:
    """How much of the time was judged, in per cent."""
    whole = told["until"] - told["since"]
    return 100 * min(sum(one["judged_s"] for one in told["bins"]) / whole, 1) if whole else None


def _finding(one: Any) -> Line:
    """The finding in a line; `total` is 0 where it is not there any more, so that nothing links to it."""
    made = line(one)
    made.total = 0 if one.fingerprint == "" else 1
    return made
