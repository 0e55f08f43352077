"""Which process a node speaks to, where several take agents in: each hello names its process in the node's row."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from fleet.inventory.models import Node

_IN_ONE_QUERY: Final = 500


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A node's connection to another process: its boot, when it came (server's clock), its newest stored sample (server's clock too)."""

    boot: str
    since: float
    newest_t: float


def of(node: Node) -> Elsewhere | None:
    """Where the row says that the node is connected; None when its connection has ended."""
    if not node.served_by or node.disconnected_at is not None or node.connected_at is None:
        return None
    # The row is told of samples seconds later; what it samples is newer than its hello in any case.
    newest = max(node.connected_at, node.last_seen_at or node.connected_at).timestamp()
    return Elsewhere(node.boot, node.connected_at.timestamp(), newest)


def moved(nodes: Collection[int], process: str) -> dict[int, Elsewhere | None]:
    """Of these nodes those whose last hello another process took in."""
    found: dict[int, Elsewhere | None] = {}
    ordered = sorted(nodes)
    for start in range(0, len(ordered), _IN_ONE_QUERY):
        rows = Node.objects.filter(pk__in=ordered[start : start + _IN_ONE_QUERY]).exclude(served_by__in=("", process))
        found.update(
            {row.pk: of(row) for row in rows.only("served_by", "boot", "connected_at", "disconnected_at", "last_seen_at")}
        )
    return found
