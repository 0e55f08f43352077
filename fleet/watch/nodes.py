"""The nodes as the watch looks at them: when each was heard last, and whether its silence was to be expected."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet.annotations.matching import noted
from fleet.inventory.models import Node


@dataclass(frozen=True, slots=True)
class Watched:
    """What is read of a node's row. `heard_at`: when something came from it last; None: nothing ever did."""

    pk: int
    name: str
    heard_at: datetime | None
    newest_at: datetime | None
    received_at: datetime | None
    connected_at: datetime | None
    said_bye: bool
    skew_s: float | None
    maintenance: bool
    expected_gpus: int | None

    def silent_s(self, at: datetime) -> float | None:
        """For how long nothing has come; None where nothing ever did."""
        return None if self.heard_at is None else max(0.0, (at - self.heard_at).total_seconds())


def watched(at: datetime) -> list[Watched]:
    """All nodes that were heard at any time, by name."""
    fields = (
        "pk", "name", "last_seen_at", "last_received_at", "connected_at", "said_bye_at", "clock_skew_s",
    )  # fmt: skip
    rows = list(Node.objects.filter(last_seen_at__isnull=False).order_by("name").values_list(*fields))
    notes: Mapping[Any, Mapping[str, Any]] = noted(
        "node", {row[0]: (row[1],) for row in rows}, at, keys=("maintenance", "expected_gpus")
    )
    found = []
    for pk, name, newest, received, connected, bye, skew in rows:
        note = notes.get(pk, {})
        expected = note.get("expected_gpus")
        found.append(
            Watched(
                pk=pk,
                name=name,
                heard_at=max((one for one in (newest, received) if one is not None), default=None),
                newest_at=newest,
                received_at=received,
                connected_at=connected,
                said_bye=bye is not None,
                skew_s=skew,
                maintenance=note.get("maintenance") is True,
                expected_gpus=None if expected is None else int(expected),
            )
        )
    return found
