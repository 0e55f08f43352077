"""What the doors for reports have in common: how large one may be, and for which node who may send it."""

from django.utils.translation import gettext
from rest_framework.exceptions import NotFound, PermissionDenied
from rest_framework.request import Request

from fleet.accounts.models import AgentToken
from fleet.api.errors import TooLarge
from fleet.inventory.models import Node


def body_of(request: Request, most_bytes: int) -> bytes:
    """The report as it came; TooLarge (413) over `most_bytes`."""
    body: bytes = request.body
    if len(body) > most_bytes:
        raise TooLarge
    return body


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
