"""What an operator asks of a node's agent from its page."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from fleet.accounts.models import User
from fleet.accounts.plain_text import REFUSED, is_plain
from fleet.commands.asking import MAY, AskError, ask
from fleet.commands.models import TIMED
from fleet.dashboard.commands import MINUTES
from fleet.inventory.models import Node


@login_required
@permission_required(MAY, raise_exception=True)
@require_POST
def command(request: HttpRequest, name: str) -> HttpResponse:
    """Ask for one command, then show the node again: what is wrong with the form is said on top of it."""
    node = get_object_or_404(Node, name=name)
    assert isinstance(request.user, User)  # noqa: S101 - login_required
    what, reason = request.POST.get("what", ""), request.POST.get("reason", "").strip()
    try:
        if not 1 <= len(reason) <= 300:
            raise AskError(gettext("Nothing was asked: say why, in up to 300 characters."))
        if not is_plain(reason):
            raise AskError(gettext("Nothing was asked.") + f" {REFUSED}")
        if what in TIMED and request.POST.get("confirmed") != "yes":
            raise AskError(gettext("Nothing was asked: tick the box to confirm it."))
        ask(node, what, _seconds(request.POST.get("minutes", "")) if what in TIMED else None, reason, request.user)
    except AskError as error:
        messages.warning(request, str(error))
    return redirect(f"{reverse('node', args=[name])}#commands-title")


def _seconds(minutes: str) -> int:
    if minutes not in map(str, MINUTES):
        raise AskError(gettext("Nothing was asked: choose for how long."))
    return 60 * int(minutes)
