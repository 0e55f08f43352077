"""The icon for programs that ask for `/favicon.ico` whatever the page says."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.templatetags.static import static
from django.views.decorators.http import require_safe


@require_safe
def favicon(request: HttpRequest) -> HttpResponse:
    """A redirect to the icon, for anyone."""
    return redirect(static("img/fettle.svg"))
