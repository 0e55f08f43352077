"""What fires now, and who looks after it."""

from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext, ngettext, pgettext_lazy
from django.views.decorators.http import require_POST, require_safe

from advisor.finding import SEVERITIES
from fleet.accounts.models import User
from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.dashboard import alert_words, words
from fleet.dashboard.alerts import BY, COLUMNS, SORTS, filtered, shown, summaries, tops, with_words
from fleet.findings.models import Finding
from fleet.inventory.models import Node
from fleet.notify.acknowledging import AcknowledgeError, acknowledge, take_back
from fleet.notify.models import LABELS

A_PAGE: Final = 50
AT_ONCE: Final = 500
MAY_ACKNOWLEDGE: Final = "notify.add_acknowledgement"
MAY_SILENCE: Final = "notify.add_silence"
SORT: Final = {
    "severity": pgettext_lazy("order", "the gravest first"),
    "newest": pgettext_lazy("order", "the newest first"),
    "oldest": pgettext_lazy("order", "the oldest first"),
    "node": pgettext_lazy("order", "by node"),
    "rule": pgettext_lazy("order", "by rule"),
}
GROUPED: Final = {"node": pgettext_lazy("grouped by", "node"), "rule": pgettext_lazy("grouped by", "rule")}


@login_required
@require_safe
def alerts(request: HttpRequest) -> HttpResponse:
    """The page `/alerts/`."""
    found, chosen = filtered(request.GET.dict())
    number, by = request.GET.get("page"), chosen["by"]
    page: Page[Any] = Paginator(summaries(found, by) if by else tops(found, chosen["sort"]), A_PAGE).get_page(number)
    listed = list(page.object_list)
    rules = list(
        Finding.objects.filter(resolved_at=None, shadow=False).order_by("rule").values_list("rule", flat=True).distinct()
    )
    nodes = list(
        Node.objects.filter(findings__resolved_at=None, findings__isnull=False).distinct().values_list("name", flat=True)
    )
    query, whole = request.GET.copy(), request.GET.copy()
    query.pop("page", None)
    for name in ("page", "by", *BY):
        whole.pop(name, None)
    context = {
        "section": "alerts",
        "part": "alerts",
        "rows": [] if by else shown(listed, timezone.now()),
        "summaries": [with_words(row) for row in listed] if by else [],
        "total": found.count(),
        "page": page,
        "chosen": chosen,
        "query": query.urlencode(),
        "ungrouped": whole.urlencode(),
        "here": request.get_full_path(),
        "severities": [(slug, words.word(words.SEVERITY, slug)) for slug in reversed(SEVERITIES)],
        "labels": [(label, words.word(alert_words.LABEL, label)) for label in LABELS if label not in COLUMNS],
        "sorts": [(slug, SORT[slug]) for slug in SORTS],
        "grouped": list(GROUPED.items()),
        "rules": rules,
        "nodes": nodes,
        "may_acknowledge": request.user.has_perm(MAY_ACKNOWLEDGE),
        "may_silence": request.user.has_perm(MAY_SILENCE),
        "recordings": 0 if by else sum(1 for one in listed if one.node and one.node.recording),
    }
    return render(request, "dashboard/alerts.html", context)


@login_required
@permission_required(MAY_ACKNOWLEDGE, raise_exception=True)
@require_POST
def look_after(request: HttpRequest) -> HttpResponse:
    """Acknowledge alerts, or take that back, then show again where one was: those that were ticked, or the one whose button was pressed."""
    assert isinstance(request.user, User)  # noqa: S101 - login_required
    what, comment = request.POST.get("what", ""), request.POST.get("comment", "").strip()
    word, _, one = what.partition(" ")
    asked = [one] if one else request.POST.getlist("finding")[:AT_ONCE]
    findings = list(Finding.objects.filter(pk__in=[int(pk) for pk in asked if pk.isdecimal() and len(pk) < 19]))
    if not is_plain(comment):
        messages.warning(request, gettext("That was not done.") + f" {REFUSED}")
    elif not findings:
        messages.warning(request, gettext("Nothing was done: tick the alerts that you mean."))
    elif word == "take-back":
        total = sum(bool(take_back(finding)) for finding in findings)
        says = ngettext("Nobody looks after {total} alert any more.", "Nobody looks after {total} alerts any more.", total)
        messages.success(request, says.format(total=total))
    else:
        _acknowledge(request, request.user, findings, comment)
    return redirect(_back(request))


def _acknowledge(request: HttpRequest, user: User, findings: list[Finding], comment: str) -> None:
    done, over = 0, 0
    for finding in findings:
        try:
            acknowledge(finding, via="page", by=user, comment=comment)
            done += 1
        except AcknowledgeError:
            over += 1
    if done:
        messages.success(
            request, ngettext("Acknowledged {total} alert.", "Acknowledged {total} alerts.", done).format(total=done)
        )
    if over:
        says = ngettext("{total} alert does not fire any more.", "{total} alerts do not fire any more.", over)
        messages.warning(request, says.format(total=over))


def _back(request: HttpRequest) -> str:
    """Where the person was, if that is a page of ours."""
    asked = request.POST.get("next", "")
    ours = url_has_allowed_host_and_scheme(asked, {request.get_host()}, require_https=request.is_secure())
    return asked if ours and is_plain(asked) else reverse("alerts")
