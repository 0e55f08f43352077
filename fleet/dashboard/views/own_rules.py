"""Writing a rule of the site's own: the form with its features, the trial, and its end."""

from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext
from django.views.decorators.http import require_http_methods, require_POST

from advisor.conditions import FUNCTIONS, SCOPES, columns, of_now
from advisor.finding import SEVERITIES
from fleet.accounts.models import User
from fleet.dashboard import rule_words, words
from fleet.findings import trials
from fleet.tuning import changes
from fleet.tuning.changes import MAY, TuneError
from fleet.tuning.models import OwnRule
from fleet.tuning.own_rules import FIELDS, GROUPS, OwnRuleError, unit

EMPTY: Final = {"slug": "site-", "scope": "gpu", "severity": "advice", "group": "performance"}


@login_required
@permission_required(MAY, raise_exception=True)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The page `/rules/new/`: write a rule."""
    if request.method != "POST":
        return _form(request, EMPTY)
    asked = {name: request.POST.get(name, "").strip() for name in ("slug", *FIELDS)}
    try:
        changes.create_own(asked["slug"], asked, _user(request), request.POST.get("comment", "").strip())
    except OwnRuleError as error:
        return _form(request, asked, error.wrong)
    except TuneError as error:
        return _form(request, asked, {"slug": str(error)})
    messages.success(
        request, gettext("Written. It is off: try it against the last day, then put it into shadow or switch it on.")
    )
    return redirect("rule", asked["slug"])


@login_required
@permission_required(MAY, raise_exception=True)
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, rule_id: str) -> HttpResponse:
    """The page `/rules/<id>/edit/`: change an own rule."""
    row = get_object_or_404(OwnRule, slug=rule_id)
    if request.method != "POST":
        return _form(request, {name: getattr(row, name) for name in ("slug", *FIELDS)}, row=row)
    asked = {name: request.POST.get(name, "").strip() for name in FIELDS}
    try:
        _row, off = changes.save_own(row.slug, asked, _user(request), request.POST.get("comment", "").strip())
    except OwnRuleError as error:
        return _form(request, asked | {"slug": row.slug}, error.wrong, row)
    except TuneError as error:
        return _form(request, asked | {"slug": row.slug}, {"comment": str(error)}, row)
    if off:
        messages.warning(request, gettext("Its conditions are new, so it was switched off: try it against the last day again."))
    return redirect("rule", row.slug)


@login_required
@permission_required(MAY, raise_exception=True)
@require_POST
def try_it(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Ask for a trial, then show the rule, where its progress stands."""
    row = get_object_or_404(OwnRule, slug=rule_id)
    try:
        trials.ask(row, _user(request))
    except TuneError as error:
        messages.warning(request, str(error))
    return redirect("rule", row.slug)


@login_required
@permission_required(MAY, raise_exception=True)
@require_POST
def remove(request: HttpRequest, rule_id: str) -> HttpResponse:
    """Remove an own rule that was confirmed, then show the catalogue."""
    row = get_object_or_404(OwnRule, slug=rule_id)
    if request.POST.get("confirmed") != "yes":
        messages.warning(request, gettext("Nothing was removed: tick the box to confirm it."))
        return redirect("rule", row.slug)
    changes.remove_own(row, _user(request), request.POST.get("comment", "").strip()[:300])
    return redirect("rules")


def _form(
    request: HttpRequest, asked: dict[str, Any], wrong: dict[str, str] | None = None, row: OwnRule | None = None
) -> HttpResponse:
    """The form with what was asked, and what is wrong with it by field; 400 where something is."""
    context = {
        "section": "rules",
        "row": row,
        "asked": asked,
        "wrong": wrong or {},
        "scopes": [(slug, words.word(words.SCOPE, slug)) for slug in SCOPES],
        "severities": [(slug, words.word(words.SEVERITY, slug)) for slug in SEVERITIES],
        "groups": [(slug, words.word(rule_words.GROUP, slug)) for slug in GROUPS],
        "functions": ", ".join(FUNCTIONS),
        "features": [
            {
                "scope": scope,
                "word": words.word(words.SCOPE, scope),
                "rows": [
                    (name, words.evidence(name), _unit(name, str(kind)), name in of_now(scope))
                    for name, kind in columns(scope).items()
                ],
            }
            for scope in SCOPES
        ],
    }
    return render(request, "dashboard/own_rule.html", context, status=400 if wrong else 200)


def _unit(feature: str, kind: str) -> str:
    """What the feature's values are, in words: text, true or false, or numbers in a unit."""
    if kind in ("String", "Boolean"):
        return gettext("text") if kind == "String" else gettext("true or false")
    return words.word(rule_words.UNIT, unit(feature))


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101 - login_required
    return request.user
