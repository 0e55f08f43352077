"""What the database should know of connections, written in bulk every few seconds, never for each batch.

Presence, the newest sample's time, clock skew, refusal counts, tokens' last use; and the way back: which tokens
were revoked and which nodes deleted, so that their connections end.
"""

import logging
import math
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from fleet.accounts.models import AgentToken
from fleet.inventory.models import Node, Refusal

STRANGER_S: Final = 60.0
MAX_STRANGERS: Final = 1_000
SKEW_STEP_S: Final = 0.25
SKEW_WARN_S: Final = 5.0
_IN_ONE_QUERY: Final = 500

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Refused:
    total: int = 0
    detail: str = ""
    at: float = 0.0


@dataclass(slots=True)
class Ledger:
    """Notes taken on the event loop; `take` hands them over to be written."""

    seen: dict[int, float] = field(default_factory=dict)
    skew: dict[int, float | None] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)
    refused: dict[tuple[str, str], _Refused] = field(default_factory=lambda: defaultdict(_Refused))
    heard: dict[int, float] = field(default_factory=dict)
    _spoken: set[tuple[str, str]] = field(default_factory=set)
    _strangers: dict[str, float] = field(default_factory=dict)
    _skew_known: dict[int, float | None] = field(default_factory=dict)

    def refuse(self, node_name: str, code: str, detail: str, count: int = 1) -> None:
        """Count a refusal; it is logged once for each node and code, until `forget`."""
        note = self.refused[node_name, code]
        note.total += count
        note.detail = detail
        note.at = time.time()
        if (node_name, code) not in self._spoken:
            self._spoken.add((node_name, code))
            logger.warning(
                "Refused a frame of %s: %s: %s (more of these are only counted)", node_name or "an unknown agent", code, detail
            )

    def stranger(self, peer: str) -> None:
        """Count a handshake without a good token; logged at most once a minute for each peer."""
        note, now = self.refused["", "wrong_token"], time.time()
        note.total, note.detail, note.at = note.total + 1, f"from {peer}", now
        if now - self._strangers.get(peer, 0.0) >= STRANGER_S:
            if len(self._strangers) >= MAX_STRANGERS:
                self._strangers.clear()
            self._strangers[peer] = now
            logger.warning("Refused a connection from %s: its token is missing, unknown or revoked", peer)

    def forget(self, node_name: str) -> None:
        """A new boot of the node has begun: what it does wrong is news again."""
        self._spoken = {spoken for spoken in self._spoken if spoken[0] != node_name}

    def saw(self, node: int, at: float, received: float | None = None) -> None:
        """The node's newest stored sample, on the server's clock, and when the newest that was stored came."""
        self.seen[node] = max(at, self.seen.get(node, 0.0))
        if received is not None:
            self.heard[node] = max(received, self.heard.get(node, 0.0))

    def clock(self, node: int, skew: float | None) -> None:
        """How far the node's clock is ahead of ours, None: not known; written when it changes, logged when it is far off."""
        known = self._skew_known.get(node, math.inf)
        is_same = skew is known if skew is None or known is None else abs(skew - known) <= SKEW_STEP_S
        if not is_same:
            if skew is not None and abs(skew) > SKEW_WARN_S:
                logger.warning("The clock of node %d is off by %.1f s", node, skew)
            self._skew_known[node] = self.skew[node] = skew

    def drop(self, node: int, node_name: str) -> None:
        """Forget what is known of a node that is gone or long silent; what is not written yet stays."""
        self._skew_known.pop(node, None)
        self.forget(node_name)

    def take(self) -> "Ledger":
        """What was noted since the last call."""
        taken = Ledger(self.seen, self.skew, self.gone, self.used, self.refused, self.heard)
        self.seen, self.skew, self.gone, self.used, self.heard = {}, {}, set(), set(), {}
        self.refused = defaultdict(_Refused)
        return taken

    def put_back(self, taken: "Ledger") -> None:
        """Keep for later what could not be written."""
        for node, at in taken.seen.items():
            self.saw(node, at, taken.heard.get(node))
        self.skew = {**taken.skew, **self.skew}
        self.gone |= taken.gone
        self.used |= taken.used
        for key, note in taken.refused.items():
            self.refused[key].total += note.total
            if note.at > self.refused[key].at:
                self.refused[key].detail, self.refused[key].at = note.detail, note.at


def write(taken: Ledger, process: str) -> None:
    """Write what was noted by this process. Safe to repeat, but for refusal counts, which come last."""
    _moved_on("last_seen_at", taken.seen)
    _moved_on("last_received_at", taken.heard)
    _each_node(
        "clock_skew_s = %s",
        "TRUE",
        [(None if skew is None else round(skew, 3), node) for node, skew in sorted(taken.skew.items())],
    )
    for part in _parts(taken.gone):
        # What went from here may have come to another process before this is written.
        Node.objects.filter(pk__in=part, served_by=process).update(disconnected_at=timezone.now())
    for part in _parts(taken.used):
        AgentToken.objects.filter(pk__in=part).update(last_used_at=timezone.now())
    for (node_name, code), note in taken.refused.items():
        row, _ = Refusal.objects.get_or_create(node_name=node_name, code=code)
        Refusal.objects.filter(pk=row.pk).update(
            total=F("total") + note.total, last_at=datetime.fromtimestamp(note.at, UTC), last_detail=note.detail[:300]
        )


def dead(tokens: Collection[int], nodes: Collection[int]) -> tuple[set[int], set[int]]:
    """Of these tokens those that no longer speak, of these nodes those that are no longer in the inventory."""
    # Reading all ids is cheaper than asking for a thousand by number.
    live = AgentToken.objects.filter(revoked_at=None).values_list("pk", flat=True)
    return set(tokens) - set(live), set(nodes) - set(Node.objects.values_list("pk", flat=True))


def _moved_on(column: str, seen: Mapping[int, float]) -> None:
    """Move a time of nodes on, never back: a flush may hold a backlog alone.

    It is on the server's clock and never later than the arrival, so a node's clock that is set right does not matter. Only
    where the server's own clock was ahead does a row lie in its future: that one is corrected.
    """
    adapt = connection.ops.adapt_datetimefield_value
    now = adapt(timezone.now())
    moments = [(adapt(datetime.fromtimestamp(at, UTC)), node) for node, at in sorted(seen.items())]
    _each_node(
        f"{column} = %s",
        f"({column} IS NULL OR {column} < %s OR {column} > %s)",
        [(moment, node, moment, now) for moment, node in moments],
    )


def _each_node(change: str, where: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Change a column of many nodes, in one statement prepared once: the ORM would build a case for each row.

    The rows are in the order of the nodes, so that two processes that write of the same ones do not lock each other out.
    """
    if not rows:
        return
    table = connection.ops.quote_name(Node._meta.db_table)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {change} WHERE id = %s AND {where}", rows)  # noqa: S608 - no input in the names


def _parts(ids: Collection[int]) -> list[list[int]]:
    ordered = sorted(ids)
    return [ordered[start : start + _IN_ONE_QUERY] for start in range(0, len(ordered), _IN_ONE_QUERY)]
