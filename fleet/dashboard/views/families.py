"""A job family: its runs, their baselines, and since when they are worse."""

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from fleet.dashboard.families import blocks


@login_required
@require_safe
def family(request: HttpRequest, name: str) -> HttpResponse:
    """The page `/families/<family>/`."""
    found = blocks(name, timezone.now())
    if not found:
        raise Http404
    return render(request, "dashboard/family.html", {"section": "fleet", "family": name, "blocks": found})
