"""Absences as state intervals: opened and closed when they change, never a row for each sample.

Two sources: what agents declare (`Batch.absent`), which lasts until they say that it is back or send a value, and what
the value gate refused (`out_of_range`), which ends when nothing was refused for a while. An agent's own gate uses the
same reason, so each row says which of the two it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from django.db import transaction

from fleet.ingest.columns import Accepted, Chunk
from fleet.inventory.models import Absence, Gpu, Node
from wire.messages import PROCESSES

REFUSED: Final = "out_of_range"
CLOSES_AFTER_S: Final = 60.0
"""A value's absence that the server refused ends when none was refused for so long; one bad sample is one short row."""

Key = tuple[int, int | None, str]


@dataclass(slots=True)
class _Open:
    since: float
    reason: str
    last: float
    row: int
    refused: bool


@dataclass(slots=True)
class AbsenceBook:
    """What is absent now on the nodes that this process serves. Only the store's thread uses it.

    `apply` is called before the chunk is acked: agents tell changes once. It may be called twice with the same
    chunk (a retry, a resend): a change that is not newer than what is known does nothing.
    """

    _nodes: dict[int, dict[Key, _Open]] = field(default_factory=dict)
    _changed_at: dict[Key, float] = field(default_factory=dict)

    def apply(self, chunks: Iterable[Chunk]) -> None:
        """Bring the rows up to these chunks, in one transaction; a database error leaves the book as the database is."""
        touched = [one for chunk in chunks for one in chunk.taken if one.batch.absent or one.session.is_first]
        impossible = [bad for chunk in chunks for bad in chunk.impossible]
        newest = max((one.at for chunk in chunks for one in chunk.taken), default=0.0)
        ends = self._refusals_that_ended(newest)
        if not touched and not impossible and not ends:
            return
        nodes, gpus = _existing({one.session.node for one in touched} | {bad.node for bad in impossible})
        touched = [one for one in touched if one.session.node in nodes and gpus.issuperset(one.session.gpus)]
        impossible = [bad for bad in impossible if bad.node in nodes and (bad.gpu is None or bad.gpu in gpus)]
        try:
            with transaction.atomic():
                for one in sorted(touched, key=lambda one: one.t):
                    self._declared(one)
                for bad in impossible:
                    key = (bad.node, bad.gpu, bad.metric)
                    known = self._of(bad.node).get(key)
                    if known is not None:
                        known.last = max(known.last, bad.t)
                    else:
                        self._open(key, bad.t, REFUSED, refused=True)
                for key, last in ends:
                    self._close(key, last + 1)
        except Exception:
            self._nodes.clear()  # read again from the database when next needed
            self._changed_at.clear()
            raise
        for one in touched:
            one.session.is_first = False

    def _declared(self, one: Accepted) -> None:
        session, batch = one.session, one.batch
        named = {(session.node, session.gpus[c.gpu] if c.gpu >= 0 else None, c.metric): c.reason for c in batch.absent}
        # A boot's first batch names everything that is absent; what an earlier boot lacked and this one does not is back.
        # So is what has a value here: the batch that said so was lost on the way, as agents drop some when their disk is full.
        names_all = session.is_first and batch.seq == 0
        for key, open_one in self._of(session.node).items():
            if key not in named and not open_one.refused and (names_all or _has_value(one, key)):
                named[key] = None
        for key, reason in named.items():
            if one.t < self._changed_at.get(key, 0.0):
                continue
            known = self._of(session.node).get(key)
            if known is not None and known.refused and reason is None:
                continue  # the agent does not know of it
            if (known.reason if known and not known.refused else None) == reason:
                continue
            if known is not None:
                self._close(key, one.t)
            if reason is not None:
                self._open(key, one.t, reason)
            self._changed_at[key] = one.t

    def _of(self, node: int) -> dict[Key, _Open]:
        known = self._nodes.get(node)
        if known is None:
            known = self._nodes[node] = {}
            for row in Absence.objects.filter(node_id=node, until=None):
                key = (node, row.gpu_id, row.metric)
                known[key] = _Open(row.since.timestamp(), row.reason, row.since.timestamp(), row.pk, row.refused)
                self._changed_at[key] = row.since.timestamp()
        return known

    def _open(self, key: Key, t: float, reason: str, *, refused: bool = False) -> None:
        node, gpu, metric = key
        row = Absence.objects.create(node_id=node, gpu_id=gpu, metric=metric, reason=reason, refused=refused, since=_moment(t))
        self._of(node)[key] = _Open(t, reason, t, row.pk, refused)

    def _close(self, key: Key, t: float) -> None:
        known = self._of(key[0]).pop(key)
        Absence.objects.filter(pk=known.row).update(until=_moment(max(t, known.since)))

    def _refusals_that_ended(self, now: float) -> list[tuple[Key, float]]:
        return [
            (key, known.last)
            for opened in self._nodes.values()
            for key, known in opened.items()
            if known.refused and now - known.last > CLOSES_AFTER_S
        ]


def _has_value(one: Accepted, key: Key) -> bool:
    """True when the batch has a value where this absence says there is none."""
    session, batch = one.session, one.batch
    _, gpu, metric = key
    if metric == PROCESSES:
        return any(session.gpus[hold.gpu] == gpu for hold in batch.processes.holds)
    names = session.layout.host if gpu is None else session.layout.gpu
    if metric not in names:
        return False
    if gpu is None:
        return batch.host[names.index(metric)] is not None
    return gpu in session.gpus and batch.gpu[names.index(metric)][session.gpus.index(gpu)] is not None


def _existing(nodes: set[int]) -> tuple[set[int], set[int]]:
    """Which of these nodes are in the inventory, and their GPUs: a person may delete a node while its agent speaks."""
    return (
        set(Node.objects.filter(pk__in=nodes).values_list("pk", flat=True)),
        set(Gpu.objects.filter(node__in=nodes).values_list("pk", flat=True)),
    )


def _moment(t: float) -> datetime:
    return datetime.fromtimestamp(t, UTC)
