"""Errors as problem documents (RFC 9457): what every answer of the API from 400 on is, and how the schema says so."""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from django.utils.translation import gettext
from drf_spectacular.utils import OpenApiResponse
from rest_framework.response import Response
from rest_framework.settings import api_settings

CONTENT_TYPE: Final = "application/problem+json"
PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
    },
}
"""`errors` by parameter where single ones do not fit; what is within another has a path: `overrides.0.value`."""
_OF_ALL: Final = (api_settings.NON_FIELD_ERRORS_KEY, "__all__")
"""Names under which DRF and Django put what is about no single parameter."""


def problem(code: int, says: str) -> dict[tuple[int, str], OpenApiResponse]:
    """The answer `code` of a schema: a problem document."""
    return {(code, CONTENT_TYPE): OpenApiResponse(PROBLEM, says)}


def rows(component: str, says: str) -> OpenApiResponse:
    """The answer of a schema that is a plain list of `component`: the generator takes every list of a view with pages for a page."""
    return OpenApiResponse({"type": "array", "items": {"$ref": f"#/components/schemas/{component}"}}, says)


def document(status: int, detail: str, errors: Mapping[str, list[str]] | None = None) -> dict[str, Any]:
    """A problem document."""
    title = HTTPStatus(status).phrase
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, **({"errors": errors} if errors else {})}


def as_problem(response: Response) -> None:
    """Make DRF's answer to an error a problem document; what does not fit single parameters stands under `errors`, by parameter."""
    said = {_OF_ALL[0]: response.data} if isinstance(response.data, list) else response.data
    detail = said.get("detail")
    if isinstance(detail, str):
        response.data = document(response.status_code, detail)
    else:
        sentences = [*_sentences("", said)]
        errors: dict[str, list[str]] = {}
        for name, text in sentences:
            errors.setdefault(name, []).append(text)
        of_all = [text for name in _OF_ALL for text in errors.pop(name, ())]
        one = of_all or [text if name in text else f"{name}: {text}" for name, text in sentences if len(sentences) == 1]
        detail = " ".join(one) or gettext("The request does not fit; `errors` says where.")
        response.data = document(response.status_code, detail, errors)
    response.content_type = CONTENT_TYPE


def _sentences(name: str, said: Any) -> Iterator[tuple[str, str]]:
    """Each sentence with the parameter that it is about."""
    if isinstance(said, Mapping):
        for key, value in said.items():
            yield from _sentences(name if key in _OF_ALL and name else f"{name}.{key}" if name else str(key), value)
    elif isinstance(said, list):
        for place, value in enumerate(said):
            yield from _sentences(name if isinstance(value, str) else f"{name}.{place}", value)
    else:
        yield name, str(said)
