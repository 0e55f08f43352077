"""Advice that was applied: the verdicts, and each rule's record at this site."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from advisor.verification.compare import VERDICTS
from fleet.accounts.plain_text import is_plain
from fleet.dashboard import verdict_figure, verdicts
from fleet.findings import cost
from fleet.tuning.in_force import in_force
from fleet.verdicts.models import Verification
from fleet.verdicts.recovered import records

A_PAGE: Final = 50
CHOICES: Final = (*VERDICTS, verdicts.WAITS)


@login_required
@require_safe
def advice(request: HttpRequest) -> HttpResponse:
    """The page `/advice/`."""
    rows, chosen = _filtered(request.GET.dict())
    page = Paginator(rows, A_PAGE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    found = records()
    titles = {rule.id: gettext(rule.title) for rule in in_force().rules}
    hours = [one.recovered_gpu_hours for one in found if one.recovered_gpu_hours is not None]
    return render(
        request,
        "dashboard/advice.html",
        {
            "section": "advice",
            "records": [
                {"row": one, "title": titles.get(one.rule, one.rule), "recovered": cost.total(one.recovered_gpu_hours)}
                for one in found
            ],
            "recovered": cost.total(sum(hours)) if hours else "",
            "lines": [
                {"shown": one, "title": titles.get(one.row.rule, one.row.rule)} for one in verdicts.listed(list(page.object_list))
            ],
            "total": page.paginator.count,
            "page": page,
            "chosen": chosen,
            "query": query.urlencode(),
            "verdicts": [(slug, verdicts.word("" if slug == verdicts.WAITS else slug)) for slug in CHOICES],
            "rules": [one.rule for one in sorted(found, key=lambda one: one.rule)],
            "odd": _odd(request.GET.dict(), {one.rule for one in found}),
        },
    )


@login_required
@require_safe
def chart(request: HttpRequest, verification_id: int) -> JsonResponse:
    """The measure before and after, as the finding's page draws it."""
    row = get_object_or_404(Verification, pk=verification_id)
    response = JsonResponse({"figures": [{"metric": "verdict", "figure": verdict_figure.figure(row)}]})
    response["Cache-Control"] = "no-store"
    return response


def _filtered(asked: Mapping[str, str]) -> tuple[QuerySet[Verification], dict[str, str]]:
    """The rows that the query string asks for, and the filters that were understood."""
    rows = Verification.objects.defer("before_samples", "after_samples").select_related("finding")
    chosen: dict[str, Any] = {name: asked.get(name, "").strip() for name in ("verdict", "rule")}
    if not all(map(is_plain, chosen.values())):
        return rows.none(), dict.fromkeys(chosen, "")
    if chosen["verdict"] in CHOICES:
        rows = rows.filter(verdict="" if chosen["verdict"] == verdicts.WAITS else chosen["verdict"])
    if chosen["rule"]:
        rows = rows.filter(rule=chosen["rule"])
    return rows, chosen


def _odd(asked: Mapping[str, str], rules: set[str]) -> list[str]:
    """The filters that name nothing there is, in words."""
    known = {"verdict": (gettext("Verdict"), set(CHOICES)), "rule": (gettext("Rule"), rules)}
    said = {name: asked.get(name, "").strip() for name in known}
    said = {name: value if is_plain(value) else "?" for name, value in said.items()}
    return [f"{known[name][0]} “{value}”" for name, value in said.items() if value and value not in known[name][1]]
