"""A Content-Security-Policy on every page: only our own scripts, none inline, no other host."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

POLICY: Final = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # Plotly writes style attributes and a style element
        "img-src 'self' data: blob:",  # Plotly's picture export and the API page's icons
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADER: Final = "Content-Security-Policy"
Handler: TypeAlias = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


class ContentSecurityPolicy:
    """Adds the policy to every response that has none of its own; runs in either world without a thread hop."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """The next handler's response with the header set."""
        response = self.get_response(request)
        if isinstance(response, Awaitable):
            return self._later(response)
        response.headers.setdefault(HEADER, POLICY)
        return response

    async def _later(self, pending: Awaitable[HttpResponseBase]) -> HttpResponseBase:
        response = await pending
        response.headers.setdefault(HEADER, POLICY)
        return response
