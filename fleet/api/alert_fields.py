"""Matchers, hours and labels in bodies and schemas, and what every write of alerts may be answered."""

from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from fleet.accounts.models import User
from fleet.api.problems import problem
from fleet.notify.models import LABELS, OPERATORS

_MATCHERS: Final[dict[str, Any]] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["label", "op", "values"],
        "additionalProperties": False,
        "properties": {
            "label": {"type": "string", "enum": list(LABELS)},
            "op": {"type": "string", "enum": list(OPERATORS)},
            "values": {
                "type": "array",
                "items": {"type": "string", "minLength": 1, "maxLength": 300},
                "minItems": 1,
                "maxItems": 100,
            },
        },
    },
    "maxItems": 20,
}
_TIMES: Final[dict[str, Any]] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["days", "from", "to", "timezone"],
        "additionalProperties": False,
        "properties": {
            "days": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 6}, "minItems": 1},
            "from": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
            "to": {"type": "string", "pattern": "^[0-2][0-9]:[0-5][0-9]$"},
            "timezone": {"type": "string"},
        },
    },
    "maxItems": 20,
}
_LABELS: Final[dict[str, Any]] = {"type": "array", "items": {"type": "string", "enum": list(LABELS)}, "maxItems": len(LABELS)}


@extend_schema_field(_MATCHERS)
class MatchersField(serializers.JSONField):
    """Matchers, all of which must hold; `*` stands for any characters and `?` for one."""


@extend_schema_field(_TIMES)
class TimesField(serializers.JSONField):
    """Hours of days (0 is Monday) in a time zone; `to` may be 24:00, and one that ends before it begins goes on past midnight."""


@extend_schema_field(_LABELS)
class LabelsField(serializers.JSONField):
    """Names of labels."""


UNKNOWN: Final = problem(401, "The caller is not known.")
WRITES: Final = (
    problem(400, "What of the request does not fit, by parameter.")
    | problem(403, "The caller may not write.")
    | problem(413, "The request is too large.")
    | UNKNOWN
)


def person(request: Request) -> User:
    """Who asks: a person, or a token's."""
    assert isinstance(request.user, User)  # noqa: S101 - IsAuthenticated
    return request.user
