"""The page behind the link in a message: it asks, and a POST acknowledges. Whoever reads the chat may press it; there is no login."""

from hashlib import sha256
from typing import Any, Final

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from fleet.dashboard.listing import line
from fleet.findings.models import Finding
from fleet.notify import ack_links
from fleet.notify.acknowledging import AcknowledgeError, acknowledge, acknowledged
from fleet.notify.models import Delivery, Route
from fleet.notify.quieting import FIRES

A_MINUTE: Final = 30
"""Times that one link may be opened or pressed in a minute, in one process."""
SHOWN: Final = 20


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def ack_link(request: HttpRequest, token: str) -> HttpResponse:
    """The page `/alerts/acknowledge/<token>/`. A GET or HEAD never acknowledges: chats open links to show a preview."""
    if _too_often(token):
        return _says(request, gettext("This link was opened too often: wait a minute."), 429)
    try:
        link = ack_links.opened(token)
    except ack_links.AckLinkTooOldError as error:
        return _says(request, str(error), 410)
    except ack_links.AckLinkError as error:
        return _says(request, str(error), 404)
    finding = Finding.objects.select_related("node").filter(pk=link.finding_id).first()
    route = Route.objects.filter(pk=link.route_id).only("pk", "name").first()
    if finding is None or route is None:
        return _says(request, gettext("The alert or its route is not kept any more; there is nothing to acknowledge."), 410)
    if finding.resolved_at is not None or finding.condition not in FIRES:
        return _says(request, gettext("The alert is over; there is nothing to acknowledge."), 200, finding)
    others = _others(link)
    if request.method == "POST":
        every = [finding, *(others if request.POST.get("what") == "all" else ())]
        return _page(request, finding, route, [], done=sum(_acknowledged(one, route) for one in every))
    return _page(request, finding, route, others)


def _acknowledged(finding: Finding, route: Route) -> bool:
    """Whether it could be acknowledged: False when it ended this moment."""
    try:
        acknowledge(finding, via="link", by_name=route.name)
    except AcknowledgeError:
        return False
    return True


def _others(link: ack_links.AckLink) -> list[Finding]:
    """What else of the same message fires and is looked after by nobody."""
    of_message = Delivery.objects.filter(lead=link.delivery_id).values("transition__finding")
    rows = Finding.objects.filter(pk__in=of_message, resolved_at=None, condition__in=FIRES).exclude(pk=link.finding_id)
    found = list(rows.select_related("node").order_by("-severity_rank", "pk")[:500])
    looked_after = acknowledged([one.pk for one in found])
    return [one for one in found if one.pk not in looked_after]


def _page(request: HttpRequest, finding: Finding, route: Route, others: list[Finding], done: int = 0) -> HttpResponse:
    context = {
        "line": line(finding, with_gpus=True),
        "route": route,
        "by": finding.acknowledgements.filter(severity_rank__gte=finding.severity_rank).first(),
        "others": [line(one) for one in others[:SHOWN]],
        "others_total": len(others),
        "all_total": len(others) + 1,
        "done": done,
    }
    return render(request, "dashboard/ack_link.html", context)


def _says(request: HttpRequest, says: str, status: int, finding: Finding | None = None) -> HttpResponse:
    context: dict[str, Any] = {"says": says, "line": line(finding, with_gpus=True) if finding else None}
    return render(request, "dashboard/ack_link.html", context, status=status)


def _too_often(token: str) -> bool:
    """Whether this link was asked for more than so often within a minute."""
    key = "ack-link:" + sha256(token.encode()).hexdigest()
    cache.add(key, 0, 60)
    try:
        return cache.incr(key) > A_MINUTE
    except ValueError:  # it ended between the two
        return False
