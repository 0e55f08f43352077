"""ETags of answers: a reader that sends the last one back gets 304, and no body, while nothing changed."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from django.http.response import HttpResponseBase
from django.utils.cache import get_conditional_response
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

_PASSING: Final = frozenset({"told_at", "age_s", "checked_at", "made_at", "created"})
"""What changes although nothing happened. The tags are weak, as HTTP calls those of bodies that mean the same."""


class Tagged(APIView):
    """Gives its answers an ETag, and heeds If-None-Match."""

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """The answer with its tag; 304 without a body for a reader that has it."""
        final = super().finalize_response(request, response, *args, **kwargs)
        if not isinstance(final, Response) or final.status_code not in (200, 201):
            return final
        final["ETag"] = tag(final.data)
        if request.method not in ("GET", "HEAD"):
            return final
        answer: HttpResponseBase | None = get_conditional_response(request._request, etag=final["ETag"], response=final)
        return answer


def tag(data: Any) -> str:
    """A weak ETag of what an answer says."""
    text = json.dumps(_lasting(data), sort_keys=True, default=str, separators=(",", ":"))
    return f'W/"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def _lasting(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {name: _lasting(value) for name, value in data.items() if name not in _PASSING}
    return [_lasting(one) for one in data] if isinstance(data, list | tuple) else data
