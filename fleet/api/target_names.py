"""Names beside the ids of targets, read once for a page."""

from collections.abc import MutableMapping
from typing import Any, Protocol, cast

from rest_framework import serializers

from fleet.findings.targets import names


class _Aimed(Protocol):
    scope: str
    target: str


class TargetList(serializers.ListSerializer[Any]):
    """Reads once for a whole page what its targets are called."""

    def to_representation(self, data: Any) -> list[Any]:
        """The page's rows, each with the name of its target."""
        rows = list(data)
        cast(MutableMapping[str, Any], self.context)["target_names"] = names((row.scope, row.target) for row in rows)
        return super().to_representation(rows)


def name_of(context: Any, row: _Aimed) -> str:
    """What the row's target is called."""
    key = (row.scope, row.target)
    known: dict[tuple[str, str], str] = context["target_names"] if "target_names" in context else names([key])
    return known.get(key, row.target)
