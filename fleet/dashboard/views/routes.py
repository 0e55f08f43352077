"""Where alerts go: the routes in their order, each in a form, tested and tried; a route's URL goes in and does not come out."""

from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from advisor.finding import SEVERITIES
from fleet.accounts.models import User
from fleet.dashboard import alert_form, alert_words, route_form, words
from fleet.notify import deliver, keeping
from fleet.notify.decisions import GROUPED_BY
from fleet.notify.models import Delivery, Inhibition, Route
from fleet.notify.trial import trial

MAY_ROUTE: Final = "notify.change_route"
MAY_INHIBIT: Final = "notify.change_inhibition"
WRITES: Final = ["GET", "HEAD", "POST"]


@login_required
@require_safe
def routes(request: HttpRequest) -> HttpResponse:
    """The page `/alerts/routes/`."""
    found = list(Route.objects.select_related("escalate_to"))
    dead = dict(Delivery.objects.filter(state="dead", lead=None).order_by().values_list("route").annotate(total=Count("pk")))
    context = {
        "section": "alerts",
        "part": "routes",
        "rows": [_row(one, dead.get(one.pk, 0)) for one in found],
        "inhibitions": [
            {
                "row": one,
                "source": alert_words.matchers(one.source),
                "target": alert_words.matchers(one.target),
                "equal": [words.word(alert_words.LABEL, label) for label in one.equal],
            }
            for one in Inhibition.objects.all()
        ],
        "may_route": request.user.has_perm(MAY_ROUTE),
        "may_inhibit": request.user.has_perm(MAY_INHIBIT),
    }
    return render(request, "dashboard/routes.html", context)


@login_required
@permission_required(MAY_ROUTE, raise_exception=True)
@require_http_methods(WRITES)
def new(request: HttpRequest) -> HttpResponse:
    """The page `/alerts/routes/new/`: add a route."""
    if request.method != "POST":
        return _form(request, route_form.of_route(Route()), {}, None)
    asked, fields, wrong = route_form.read_route(request.POST, None)
    if wrong:
        return _form(request, asked, wrong, None)
    row = keeping.add(Route, fields, _user(request))
    messages.success(request, gettext("Added {name}. Send a test through it.").format(name=row.name))
    return redirect("route", row.pk)


@login_required
@permission_required(MAY_ROUTE, raise_exception=True)
@require_http_methods(WRITES)
def route(request: HttpRequest, route_id: int) -> HttpResponse:
    """The page `/alerts/routes/<id>/`: change a route."""
    row = get_object_or_404(Route, pk=route_id)
    if request.method != "POST":
        return _form(request, route_form.of_route(row), {}, row)
    asked, fields, wrong = route_form.read_route(request.POST, row)
    if wrong:
        return _form(request, asked, wrong, row)
    keeping.change(row, fields, _user(request))
    messages.success(request, gettext("Saved {name}.").format(name=row.name))
    return redirect("routes")


@login_required
@permission_required(MAY_ROUTE, raise_exception=True)
@require_POST
def act(request: HttpRequest, route_id: int) -> HttpResponse:
    """Test a route, switch it on or off, or delete it, then show the routes."""
    row, what = get_object_or_404(Route, pk=route_id), request.POST.get("what", "")
    if what == "test":
        outcome = trial(row)
        if outcome.sent:
            messages.success(request, gettext("Sent through {name}.").format(name=row.name))
        else:
            messages.error(request, gettext("Not sent through {name}: {reason}").format(name=row.name, reason=outcome.error))
    elif what in ("on", "off"):
        keeping.change(row, {"enabled": what == "on"}, _user(request))
    elif what == "delete" and request.POST.get("confirmed") == "yes":
        keeping.remove(row, _user(request))
        messages.success(request, gettext("Deleted {name}.").format(name=row.name))
    else:
        messages.warning(request, gettext("Nothing was deleted: tick the box to confirm it."))
        return redirect("route", row.pk)
    return redirect("route", row.pk) if request.POST.get("at") == "form" and what != "delete" else redirect("routes")


@login_required
@permission_required(MAY_INHIBIT, raise_exception=True)
@require_http_methods(WRITES)
def inhibition(request: HttpRequest, inhibition_id: int | None = None) -> HttpResponse:
    """The pages `/alerts/inhibitions/new/` and `/alerts/inhibitions/<id>/`: make, change or delete an inhibition."""
    row = None if inhibition_id is None else get_object_or_404(Inhibition, pk=inhibition_id)
    if request.method != "POST":
        return _inhibition(request, route_form.of_inhibition(row or Inhibition(source=[], target=[])), {}, row)
    if row is not None and request.POST.get("what") == "delete":
        if request.POST.get("confirmed") != "yes":
            messages.warning(request, gettext("Nothing was deleted: tick the box to confirm it."))
            return redirect("inhibition", row.pk)
        keeping.remove(row, _user(request))
        return redirect("routes")
    fields, wrong = route_form.read_inhibition(request.POST, row)
    if wrong:
        return _inhibition(request, fields, wrong, row)
    if row is None:
        keeping.add(Inhibition, fields, _user(request))
    else:
        keeping.change(row, fields, _user(request))
    messages.success(request, gettext("Saved {name}.").format(name=fields["name"]))
    return redirect("routes")


def _row(one: Route, dead: int) -> dict[str, Any]:
    """One route in the list."""
    return {
        "row": one,
        "service": deliver.service(one.url),
        "severity": words.word(words.SEVERITY, one.min_severity),
        "matchers": alert_words.matchers(one.matchers),
        "hours": alert_words.hours(one.active_times),
        "group_by": [words.word(alert_words.LABEL, label) for label in one.group_by or GROUPED_BY],
        "dead": dead,
    }


def _form(request: HttpRequest, asked: dict[str, Any], wrong: dict[str, str], row: Route | None) -> HttpResponse:
    """The route's form with what is wrong by field; 400 where something is."""
    others = Route.objects.exclude(pk=row.pk) if row else Route.objects.all()
    context = {
        "section": "alerts",
        "part": "routes",
        "row": row,
        "service": deliver.service(row.url) if row else "",
        "asked": asked,
        "wrong": wrong,
        "severities": [(slug, words.word(words.SEVERITY, slug)) for slug in SEVERITIES],
        "languages": alert_words.LANGUAGE,
        "others": list(others.values_list("pk", "name")),
        **route_form.rows_of(asked),
        **alert_form.choices(),
    }
    return render(request, "dashboard/route.html", context, status=400 if wrong else 200)


def _inhibition(request: HttpRequest, asked: dict[str, Any], wrong: dict[str, str], row: Inhibition | None) -> HttpResponse:
    """The inhibition's form with what is wrong by field; 400 where something is."""
    context = {
        "section": "alerts",
        "part": "routes",
        "row": row,
        "asked": asked,
        "wrong": wrong,
        "source": alert_form.matcher_rows(asked["source"], "source"),
        "target": alert_form.matcher_rows(asked["target"], "target"),
        **alert_form.choices(),
    }
    return render(request, "dashboard/inhibition.html", context, status=400 if wrong else 200)


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 - login_required
    return request.user
