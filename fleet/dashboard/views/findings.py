"""Findings: the list with its filters, one in full with its evidence, and what people decide about it."""

import time
from collections.abc import Collection
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext, pgettext_lazy
from django.views.decorators.http import require_POST, require_safe

from advisor.finding import SEVERITIES
from fleet.accounts.models import User
from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.dashboard import alert_of_finding, charts, explained, profiles, verdicts, words
from fleet.dashboard.evidence import charted, lines_of, span_of
from fleet.dashboard.listing import STATES, filtered, groups, line, opened
from fleet.dashboard.views.alerts import MAY_ACKNOWLEDGE, MAY_SILENCE
from fleet.findings import cost
from fleet.findings.advised import MOVES, MoveError, advise_transition
from fleet.findings.content import to_fill
from fleet.findings.models import CONDITIONS, Finding, Transition
from fleet.findings.targets import names
from fleet.inventory.models import Node
from fleet.slow.past_runs import program_of

A_PAGE = 50


@login_required
@require_safe
def findings(request: HttpRequest) -> HttpResponse:
    """The page `/findings/`."""
    found, chosen = filtered(request.GET.dict())
    number = request.GET.get("page")
    page: Page[Any]
    if chosen["state"] == "open":  # eight GPUs of one node are one row that opens
        page = Paginator(groups(found), A_PAGE).get_page(number)
        lines = opened(found, list(page.object_list))
    else:
        page = Paginator(found.select_related("node").prefetch_related("gpus"), A_PAGE).get_page(number)
        lines = [line(finding, with_gpus=True) for finding in page.object_list]
    rules = list(Finding.objects.filter(shadow=False).order_by("rule").values_list("rule", flat=True).distinct())
    nodes = list(Node.objects.filter(findings__isnull=False).distinct().values_list("name", flat=True))
    query = request.GET.copy()
    query.pop("page", None)
    return render(
        request,
        "dashboard/findings.html",
        {
            "section": "findings",
            "lines": lines,
            "total": sum(shown.total for shown in lines) if page.paginator.num_pages == 1 else found.count(),
            "page": page,
            "odd": odd_filters(request, rules, nodes),
            "chosen": chosen,
            "query": query.urlencode(),
            "severities": [(slug, words.word(words.SEVERITY, slug)) for slug in reversed(SEVERITIES)],
            "conditions": [(slug, words.word(words.CONDITION, slug)) for slug in CONDITIONS],
            "rules": rules,
            "nodes": nodes,
            "recordings": sum(1 for shown in lines if shown.finding.node and shown.finding.node.recording),
        },
    )


def odd_filters(request: HttpRequest, rules: Collection[str], nodes: Collection[str]) -> list[str]:
    """The filters of the query string that name nothing there is, in words: `severity “bogus”`."""
    known: dict[str, tuple[str, Collection[str]]] = {
        "state": (gettext("State"), STATES),
        "severity": (gettext("Severity"), SEVERITIES),
        "condition": (gettext("Condition"), CONDITIONS),
        "rule": (gettext("Rule"), rules),
        "node": (gettext("Node"), nodes),
    }
    asked = {name: request.GET.get(name, "").strip() for name in known}
    asked = {name: value if is_plain(value) else "?" for name, value in asked.items()}
    odd = [name for name, value in asked.items() if value and value not in known[name][1]]
    if "node" in odd and Node.objects.filter(name=asked["node"]).exists():  # it is there, and nothing was found on it
        odd.remove("node")
    return [f"{known[name][0]} “{asked[name]}”" for name in odd]


@login_required
@require_safe
def finding(request: HttpRequest, finding_id: int) -> HttpResponse:
    """The page `/findings/<id>/`."""
    found = get_object_or_404(Finding.objects.select_related("node", "cause__node"), pk=finding_id)
    gpus = list(found.gpus.select_related("node")[:64])
    shown = line(found)
    shown.target = names([(found.scope, found.target)])[found.scope, found.target]
    return render(
        request,
        "dashboard/finding.html",
        {
            "section": "findings",
            "finding": found,
            "line": shown,
            "text": shown.text,
            "gpus": gpus,
            "cost": cost.answer(found.gpu_hours_a_day),
            "stale": found.node is not None and found.node.is_stale,
            "recordings": int(bool(found.node and found.node.recording)),
            "scope": words.word(words.SCOPE, found.scope),
            "family": program_of(found.target) if found.scope == "job" else None,
            "confidence": words.word(words.CONFIDENCE, found.confidence),
            "condition": words.word(words.CONDITION, found.condition),
            "advice": words.word(words.ADVICE, found.advice),
            "means": words.word(words.BOTTLENECK_MEANS, found.bottleneck) if found.bottleneck else "",
            "evidence": shown.text.evidence,
            "charts": [
                {"scope": scope, "metric": name, "label": words.metric(name, scope)} for scope, name in charted(shown.text)
            ],
            "change": [{"line": row, "kind": words.word(words.CHANGE_KIND, row.kind)} for row in shown.text.change],
            "to_fill": to_fill(shown.text.change),
            "history": history(found),
            **explained.of(found),
            "profile": profiles.block(found),
            "verdict": verdicts.of_finding(found),
            "record": verdicts.record_of(found.rule),
            "sources": [words.source(source) for source in shown.text.sources],
            "steps": [
                (slug, STEPS[slug]) for slug in MOVES.get(found.advice, ()) if found.resolved_at is None or slug == "applied"
            ],
            **alert_of_finding.block(found),
            "may_acknowledge": request.user.has_perm(MAY_ACKNOWLEDGE),
            "may_silence": request.user.has_perm(MAY_SILENCE),
            "may_decide": request.user.has_perm("findings.change_finding"),
        },
    )


STEPS: Final = {
    "accepted": pgettext_lazy("button", "Accept"),
    "dismissed": pgettext_lazy("button", "Dismiss"),
    "applied": pgettext_lazy("button", "Mark as applied"),
    "proposed": pgettext_lazy("button", "Propose again"),
}


def history(found: Finding) -> list[dict[str, Any]]:
    """Every change of state, the newest first."""
    return [
        {
            "row": row,
            "axis": words.word(words.AXIS, row.axis),
            "before": _state(row, row.before) if row.before else "",
            "after": _state(row, row.after),
            "note": row.note if row.by_id else words.note(row.note),
        }
        for row in found.transitions.select_related("by").order_by("-at", "-id")[:200]
    ]


def _state(row: Transition, slug: str) -> str:
    """What the change was from or to; of a cause the finding's number."""
    return explained.cause_named(slug) if row.axis == "cause" else words.word(words.CONDITION | words.ADVICE, slug)


@login_required
@require_safe
def evidence(request: HttpRequest, finding_id: int) -> JsonResponse:
    """The evidence's metrics around the finding: one figure a metric, one line a GPU."""
    found = get_object_or_404(Finding.objects.select_related("node"), pk=finding_id)
    span = span_of(found, int(time.time()))
    marks = {gettext("opened"): int(found.opened_at.timestamp())}
    if found.resolved_at is not None:
        marks[gettext("resolved")] = int(found.resolved_at.timestamp())
    figures = [
        {
            "metric": name,
            "figure": charts.evidence_figure(scope, name, lines_of(found, scope, name, span), span, marks),
        }
        for scope, name in charted(line(found).text)
    ]
    response = JsonResponse({"figures": figures})
    response["Cache-Control"] = "no-store"
    return response


@login_required
@permission_required("findings.change_finding", raise_exception=True)
@require_POST
def decide(request: HttpRequest, finding_id: int) -> HttpResponse:
    """Take one decision about the advice, then show the finding again."""
    found = get_object_or_404(Finding, pk=finding_id)
    shown, after = request.POST.get("before", ""), request.POST.get("after", "")
    note = request.POST.get("note", "").strip()
    user = request.user if isinstance(request.user, User) else None
    if not is_plain(note):
        messages.warning(request, gettext("That was not done.") + f" {REFUSED}")
        return redirect("finding", finding_id)
    try:
        if found.advice != shown or (found.resolved_at is not None and after != "applied"):
            raise MoveError
        advise_transition(found, after, user, note=note)
    except MoveError:
        messages.warning(
            request, gettext("That was not done: the advice has moved on, or the finding has ended. Its state is below.")
        )
    return redirect("finding", finding_id)
