"""What was told of a node, its jobs and its engines, as its page shows it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q
from django.utils import timezone

from fleet.annotations.models import Annotation

SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class Row:
    """One annotation; `target` is what its scope has after the node's name."""

    scope: str
    target: str
    key: str
    value: Any
    at: datetime
    until: datetime | None
    by_name: str


def of_node(name: str) -> list[Row]:
    """The annotations that name the node, or a job or an engine on it, and still count; those for many nodes are not among them."""
    here = Q(scope="node", target=name) | Q(scope__in=("job", "service"), target__startswith=f"{name}/")
    rows = Annotation.objects.filter(here).exclude(until__lte=timezone.now()).order_by("scope", "target", "key")[:SHOWN]
    return [
        Row(row.scope, row.target.removeprefix(name).removeprefix("/"), row.key, row.value, row.at, row.until, row.by_name)
        for row in rows
    ]
