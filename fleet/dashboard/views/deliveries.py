"""The delivery log: what was sent, what was not and why, dead letters sent again; and how noisy each rule is."""

from collections.abc import Mapping
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from fleet.accounts.models import User
from fleet.dashboard import alert_form, alert_words, words
from fleet.dashboard.tellings import sentence
from fleet.dashboard.views.alerts import MAY_SILENCE
from fleet.findings import catalogue
from fleet.findings.content import render as said
from fleet.notify import changes, noise
from fleet.notify.models import DELIVERY_STATES, KINDS, Delivery, Route
from fleet.notify.sending import SendError, again
from fleet.tuning.changes import MAY as MAY_TUNE

A_PAGE: Final = 50
WEEKS: Final = (1, 4, 8, 12, 26)
FILTERS: Final = ("route", "state", "kind", "finding", "from", "to")


@login_required
@require_safe
def deliveries(request: HttpRequest) -> HttpResponse:
    """The page `/alerts/deliveries/`."""
    rows, chosen, odd = _filtered(request.GET.dict())
    page = Paginator(rows, A_PAGE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    query.pop("page", None)
    context = {
        "section": "alerts",
        "part": "deliveries",
        "rows": [shown(one) for one in page.object_list],
        "total": page.paginator.count,
        "dead": Delivery.objects.filter(state="dead", lead=None).count(),
        "page": page,
        "chosen": chosen,
        "odd": odd,
        "query": query.urlencode(),
        "routes": list(Route.objects.values_list("pk", "name")),
        "states": [(slug, words.word(alert_words.STATE, slug)) for slug in DELIVERY_STATES],
        "kinds": [(slug, words.word(alert_words.KIND, slug)) for slug in KINDS],
        "may_send": request.user.has_perm(MAY_SILENCE),
    }
    return render(request, "dashboard/deliveries.html", context)


@login_required
@permission_required(MAY_SILENCE, raise_exception=True)
@require_POST
def send_again(request: HttpRequest) -> HttpResponse:
    """Let dead letters be tried anew: the one whose button was pressed, or all that the page showed; then show those that are left."""
    assert isinstance(request.user, User)  # noqa: S101 - login_required
    one = request.POST.get("one", "")
    asked = [one] if one else request.POST.getlist("delivery")[:A_PAGE]
    done = 0
    for row in Delivery.objects.filter(pk__in=[int(pk) for pk in asked if pk.isdecimal() and len(pk) < 19]):
        try:
            again(row)
        except SendError as error:
            messages.warning(request, str(error))
            continue
        changes.note(request.user, row, "changed", ["state"])
        done += 1
    if done:
        messages.success(
            request, ngettext("{total} message is tried again.", "{total} messages are tried again.", done).format(total=done)
        )
    return redirect("deliveries")


@login_required
@require_safe
def noisy(request: HttpRequest) -> HttpResponse:
    """The page `/alerts/noise/`."""
    asked = request.GET.get("weeks", "")
    weeks = int(asked) if asked in map(str, WEEKS) else WEEKS[1]
    rows = noise.by_week(weeks)
    known = {entry.id: entry for entry in catalogue.entries()}

    def rule(slug: str) -> dict[str, Any]:
        entry = known.get(slug)
        return {
            "rule": slug,
            "title": entry.title if entry else slug,
            "known": entry is not None,
            "state": entry.state if entry else "",
        }

    context = {
        "section": "alerts",
        "part": "noise",
        "weeks": weeks,
        "choices": WEEKS,
        "rows": [{"row": one, "share": one.acknowledged / one.alerts if one.alerts else None, **rule(one.rule)} for one in rows],
        "idle": [{"total": total, **rule(slug)} for slug, total in noise.nobody_acts_on(rows)],
        "few": noise.FEW,
        "alerts": sum(one.alerts for one in rows),
        "messages_total": sum(one.messages for one in rows),
        "acknowledged": sum(one.acknowledged for one in rows),
        "may_tune": request.user.has_perm(MAY_TUNE),
    }
    return render(request, "dashboard/noise.html", context)


def shown(row: Delivery) -> dict[str, Any]:
    """One delivery in words."""
    finding = row.transition.finding
    release = row.group.release_at if row.group else None
    return {
        "row": row,
        "finding": finding,
        "title": said(finding).title,
        "after": words.word(words.CONDITION | words.ADVICE, row.transition.after),
        "kind": words.word(alert_words.KIND, row.kind),
        "state": words.word(alert_words.STATE, row.state),
        "why": sentence(row.state, row.why_muted, row.error, row.next_try_at, release) or row.error,
    }


def log() -> QuerySet[Delivery]:
    """Every delivery, the newest first, with what its row shows."""
    about = "route", "group", "transition__finding__node"
    return Delivery.objects.select_related(*about).defer("route__url").order_by("-created_at", "-pk")


def _filtered(asked: Mapping[str, str]) -> tuple[QuerySet[Delivery], dict[str, Any], list[str]]:
    """The rows that the query string asks for, the filters that were understood, and sentences on those that were not."""
    chosen: dict[str, Any] = {name: asked.get(name, "").strip() for name in FILTERS}
    rows, odd = log(), []
    for name, field in (("route", "route"), ("finding", "transition__finding")):
        if chosen[name].isdecimal() and len(chosen[name]) < 19:
            chosen[name] = int(chosen[name])
            rows = rows.filter(**{field: chosen[name]})
        else:
            chosen[name] = ""
    for name, known in (("state", DELIVERY_STATES), ("kind", KINDS)):
        if chosen[name] in known:
            rows = rows.filter(**{name: chosen[name]})
        else:
            chosen[name] = ""
    for name, lookup in (("from", "created_at__gte"), ("to", "created_at__lt")):
        try:
            at = alert_form.moment(chosen[name])
        except ValueError as error:
            odd.append(str(error))
            chosen[name] = ""
            continue
        if at is not None:
            rows = rows.filter(**{lookup: at})
    return rows, chosen, odd
