"""What is kept quiet on purpose: silences, and nodes in maintenance."""

from datetime import timedelta
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from fleet.accounts.models import User
from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.annotations.models import Annotation
from fleet.dashboard import alert_form, alert_words, maintenance
from fleet.dashboard.views.alerts import MAY_SILENCE
from fleet.findings.models import Finding
from fleet.notify import checks, keeping
from fleet.notify.alert_labels import labels_of
from fleet.notify.models import Silence

A_PAGE: Final = 50
FOR_S: Final = (3600, 7200, 14_400, 28_800, 86_400, 259_200, 604_800)
STATES: Final = ("current", "over")
EMPTY: Final[dict[str, Any]] = {"matchers": [], "starts_at": "", "ends_at": "", "for": "7200", "comment": ""}
NO_WINDOW: Final = {"nodes": "", "from": "", "until": "", "for": "7200"}


@login_required
@require_safe
def silences(request: HttpRequest) -> HttpResponse:
    """The page `/alerts/silences/`; `finding` fills the form in for an alert, `node` that of maintenance."""
    asked = EMPTY
    key = request.GET.get("finding", "")
    finding = Finding.objects.filter(pk=int(key)).first() if key.isdecimal() and len(key) < 19 else None
    if finding is not None:
        asked = asked | {"matchers": _of(finding)}
    node = request.GET.get("node", "")
    return _page(request, asked, {}, NO_WINDOW | {"nodes": node if is_plain(node) else ""}, {})


@login_required
@permission_required(MAY_SILENCE, raise_exception=True)
@require_POST
def new(request: HttpRequest) -> HttpResponse:
    """Make a silence, then show all; the form with what is wrong where something is."""
    post = request.POST
    asked: dict[str, Any] = {name: post.get(name, "").strip() for name in ("starts_at", "ends_at", "for", "comment")}
    asked["matchers"] = told = alert_form.matchers(post, "matchers")
    wrong: dict[str, str] = {}
    fields: dict[str, Any] = {"matchers": told, "comment": asked["comment"], "starts_at": None, "ends_at": None}
    for name in ("starts_at", "ends_at"):
        try:
            fields[name] = alert_form.moment(asked[name])
        except ValueError as error:
            wrong[name] = str(error)
    if fields["ends_at"] is None and "ends_at" not in wrong:
        fields["ends_at"] = (fields["starts_at"] or timezone.now()) + _lasts(asked["for"])
    if not is_plain(asked["comment"]) or len(asked["comment"]) > 300:
        wrong["comment"] = str(REFUSED) if len(asked["comment"]) <= 300 else gettext("Write 300 characters at most.")
    if not wrong:
        wrong = checks.of_silence(fields)
    if wrong:
        return _page(request, asked, wrong, NO_WINDOW, {})
    keeping.silence(fields, _user(request))
    messages.success(request, gettext("Silenced. What still fires when it ends is told then."))
    return redirect("silences")


@login_required
@permission_required(MAY_SILENCE, raise_exception=True)
@require_POST
def end(request: HttpRequest, silence_id: int) -> HttpResponse:
    """End one silence now, then show all."""
    if keeping.end(get_object_or_404(Silence, pk=silence_id), _user(request)):
        messages.success(request, gettext("Ended. What still fires is told within half a minute."))
    else:
        messages.warning(request, gettext("The silence has ended."))
    return redirect("silences")


@login_required
@permission_required(maintenance.MAY, raise_exception=True)
@require_POST
def maintain(request: HttpRequest) -> HttpResponse:
    """Write windows for nodes, then show all; the form with what is wrong where something is."""
    asked = {name: request.POST.get(name, "").strip() for name in NO_WINDOW}
    wrong: dict[str, str] = {}
    names, starts, until = [], None, None
    try:
        names = maintenance.nodes(asked["nodes"])
    except ValueError as error:
        wrong["nodes"] = str(error)
    try:
        starts = alert_form.moment(asked["from"])
    except ValueError as error:
        wrong["from"] = str(error)
    try:
        until = alert_form.moment(asked["until"]) or (starts or timezone.now()) + _lasts(asked["for"])
    except ValueError as error:
        wrong["until"] = str(error)
    wrong = wrong or maintenance.wrong(names, starts, until)
    if not wrong and until is not None:
        wrong = dict(maintenance.keep(names, starts, until, _user(request)))
    if wrong:
        return _page(request, EMPTY, {}, asked, wrong)
    messages.success(
        request, gettext("Noted. Alerts of these nodes are told to nobody in this time, and nothing is placed there.")
    )
    return redirect("silences")


@login_required
@permission_required(maintenance.MAY, raise_exception=True)
@require_POST
def maintained(request: HttpRequest, annotation_id: int) -> HttpResponse:
    """End a window now, then show all."""
    row = get_object_or_404(Annotation, pk=annotation_id, scope="node", key=maintenance.KEY)
    if maintenance.end(row, _user(request)):
        messages.success(request, gettext("Ended. What still fires is told within half a minute."))
    else:
        messages.warning(request, gettext("The window is over."))
    return redirect("silences")


def _page(
    request: HttpRequest, asked: dict[str, Any], wrong: dict[str, str], window: dict[str, Any], window_wrong: dict[str, str]
) -> HttpResponse:
    """All silences and windows with both forms; 400 where something in them is wrong."""
    now = timezone.now()
    state = request.GET.get("state", "")
    state = state if state in STATES else "current"
    rows = Silence.objects.filter(ends_at__gt=now) if state == "current" else Silence.objects.filter(ends_at__lte=now)
    page = Paginator(rows.order_by("starts_at", "pk") if state == "current" else rows, A_PAGE).get_page(request.GET.get("page"))
    context = {
        "section": "alerts",
        "part": "silences",
        "state": state,
        "query": f"state={state}",
        "page": page,
        "rows": [
            {
                "row": one,
                "matchers": alert_words.matchers(one.matchers),
                "state": "over" if one.ends_at <= now else "coming" if one.starts_at > now else "current",
            }
            for one in page.object_list
        ],
        "totals": {
            "current": Silence.objects.filter(ends_at__gt=now).count(),
            "over": Silence.objects.filter(ends_at__lte=now).count(),
        },
        "windows": [maintenance.shown(one, now) for one in maintenance.windows()[:200]],
        "asked": asked,
        "wrong": wrong,
        "matchers": alert_form.matcher_rows(asked["matchers"], "matchers"),
        "window": window,
        "window_wrong": window_wrong,
        "spans": [(str(value_s), value_s) for value_s in FOR_S],
        "open": bool(wrong or asked["matchers"]),
        "may_silence": request.user.has_perm(MAY_SILENCE),
        "may_maintain": request.user.has_perm(maintenance.MAY),
        **alert_form.choices(),
    }
    return render(request, "dashboard/silences.html", context, status=400 if wrong or window_wrong else 200)


def _of(finding: Finding) -> list[dict[str, Any]]:
    """Matchers that fit the alert and its like: its rule, where it is, and of a job or an engine which."""
    labels = labels_of([finding], timezone.now())[finding.pk]
    scoped = (finding.scope,) if finding.scope in ("job", "service") else ("node",)
    return [{"label": label, "op": "in", "values": list(labels[label][:100])} for label in ("rule", *scoped) if label in labels]


def _lasts(text: str) -> timedelta:
    return timedelta(seconds=int(text) if text in map(str, FOR_S) else FOR_S[1])


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 - login_required
    return request.user
