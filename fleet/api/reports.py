"""What the doors for reports have in common: how large one may be, and for which node who may send it."""

import msgspec
from django.utils.translation import gettext
from rest_framework.exceptions import NotFound, PermissionDenied, UnsupportedMediaType, ValidationError
from rest_framework.request import Request

from fleet.accounts.models import AgentToken
from fleet.accounts.plain_text import REFUSED, all_plain
from fleet.api.bodies import TooLarge
from fleet.inventory.models import Node


def body_of(request: Request, most_bytes: int) -> bytes:
    """The report as it came; TooLarge (413) over `most_bytes`, UnsupportedMediaType (415) for what does not call itself JSON."""
    if request.content_type.partition(";")[0].strip().lower() != "application/json":
        raise UnsupportedMediaType(request.content_type[:80])
    body: bytes = request.body
    if len(body) > most_bytes:
        raise TooLarge
    return body


def unusable(error: Exception) -> ValidationError:
    """400: the report is none; `error` says why."""
    return ValidationError({"report": [gettext("The report cannot be used: {why}.").format(why=error)]})


def refuse_control_characters(report: msgspec.Struct) -> None:
    """ValidationError (400) for a report of which a text holds what none should, such as NUL."""
    if not all_plain(msgspec.to_builtins(report)):
        raise ValidationError({"report": [str(REFUSED)]})


def node_of(request: Request, name: str) -> Node:
    """The node that a report is of. An agent's token speaks for its own node alone (403); no such node: 404."""
    if isinstance(request.auth, AgentToken) and request.auth.node_name != name:
        raise PermissionDenied(
            gettext("This token speaks for {own}, not for {other}.").format(own=request.auth.node_name, other=name)
        )
    node = Node.objects.filter(name=name).first()
    if node is None:
        raise NotFound(gettext("There is no node {name}: start its agent once.").format(name=name))
    return node
