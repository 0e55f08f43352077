"""Absences as state intervals: opened and closed when they change, never a row for each sample.

What is over a node's share waits in memory, and the batches that told of it are not acked meanwhile (`held`): after a
crash their agent sends them again. Of one key only the newest change waits, so what waits is bounded by the node's keys.

Two sources: what agents declare (`Batch.absent`), which lasts until they say that it is back or send a value, and what
the value gate refused (`out_of_range`), which ends when nothing was refused for a while. An agent's own gate uses the
same reason, so each row says which of the two it is.
"""

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

from django.db import IntegrityError, connection, transaction

from fleet.ingest.accept import Session
from fleet.ingest.columns import Accepted, Chunk
from fleet.inventory.models import Absence, Gpu, Node
from wire.messages import PROCESSES

REFUSED: Final = "out_of_range"
CLOSES_AFTER_S: Final = 60.0
"""A value's absence that the server refused ends when none was refused for so long; one bad sample is one short row."""
CHANGES_PER_S: Final = 20.0
CHANGES_AT_ONCE: Final = 5_000
"""Of one node. Every metric of 64 GPUs may go absent at once; what flaps on and on is written as often as its share allows,
and of what happened in between the last state counts."""
_ROWS_AT_ONCE: Final = 500
"""In one transaction: nobody waits long for the database behind it."""

IDLE_S: Final = 3_600.0
"""A node that told nothing for so long is read anew from the database when it speaks again."""
_MAX_CLOSED: Final = 10_000
"""Of one node, keys that are remembered though nothing is open: every change of MIG makes new ones."""

Key = tuple[int, int | None, str]
Source: TypeAlias = tuple[Session, int]
"""The session and seq of a batch."""


@dataclass(slots=True)
class _Open:
    since: float
    reason: str
    last: float
    row: Absence
    refused: bool


@dataclass(slots=True)
class _NodeBook:
    """What is open on one node, what could not be written yet (time, reason, who said so), and how many changes it has left."""

    open: dict[Key, _Open] = field(default_factory=dict)
    changed_at: dict[Key, float] = field(default_factory=dict)
    waiting: dict[Key, tuple[float, str | None, Source]] = field(default_factory=dict)
    left: float = field(default_factory=lambda: float(CHANGES_AT_ONCE))
    at: float = 0.0
    used_at: float = 0.0

    def refill(self, now: float) -> None:
        """Let the share of the time since the last call come back."""
        self.left = min(CHANGES_AT_ONCE, self.left + CHANGES_PER_S * max(0.0, now - self.at))
        self.at = max(self.at, now)

    def keep(self, gpus: set[int]) -> None:
        """Forget GPUs that are no longer in the inventory, and the oldest of what is closed where too much is."""
        for known in (self.open, self.changed_at, self.waiting):
            for key in [key for key in known if key[1] is not None and key[1] not in gpus]:
                del known[key]
        closed = sorted(self.changed_at.keys() - self.open.keys(), key=self.changed_at.__getitem__)
        for key in closed[: max(0, len(closed) - _MAX_CLOSED)]:
            del self.changed_at[key]

    def spend(self) -> bool:
        """True when one more change may be written."""
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass(slots=True)
class AbsenceBook:
    """What is absent now on the nodes that this process serves. Only the store's thread uses it.

    `apply` is called before the chunk is acked: agents tell changes once. It may be called twice with the same
    chunk (a retry, a resend): a change that is not newer than what is known does nothing. What the database would
    not take stays in the book and is written first by the next call; batches that `held` names are not acked yet.
    """

    _nodes: dict[int, _NodeBook] = field(default_factory=dict)
    _new: list[Absence] = field(default_factory=list)
    _ended: list[Absence] = field(default_factory=list)
    _under_way: set[Source] = field(default_factory=set)

    def apply(self, chunks: Iterable[Chunk]) -> None:
        """Bring the rows up to these chunks, in short transactions; no chunks: write more of what waits."""
        touched = [one for chunk in chunks for one in chunk.taken if one.batch.absent or one.batch.seq == 0]
        impossible = [bad for chunk in chunks for bad in chunk.impossible if not bad.of_engine]
        now = max((one.at for chunk in chunks for one in chunk.taken), default=time.time())
        ends = self._refusals_that_ended(now)
        waited = {node for node, book in self._nodes.items() if book.waiting}
        nodes, gpus = _existing({one.session.node for one in touched} | {bad.node for bad in impossible} | waited)
        for node in waited - nodes:
            del self._nodes[node]
        for node, book in self._nodes.items():
            book.refill(now)
            if book.waiting:
                book.keep(gpus)
            for key in list(book.waiting):
                if book.left < 1:
                    break
                t, reason, source = book.waiting.pop(key)
                self._under_way.add(source)
                self._change(node, key, t, reason, source)
        touched = [one for one in touched if one.session.node in nodes and gpus.issuperset(one.session.gpus)]
        for node in {one.session.node for one in touched if one.batch.seq == 0}:
            self._of(node).keep(gpus)
        for one in sorted(touched, key=lambda one: one.t):
            self._declared(one)
            self._of(one.session.node).used_at = now
        for bad in impossible:
            if bad.node not in nodes or (bad.gpu is not None and bad.gpu not in gpus):
                continue
            key, book = (bad.node, bad.gpu, bad.metric), self._of(bad.node)
            book.used_at = now
            known = book.open.get(key)
            if known is not None:
                known.last = max(known.last, bad.t)
            elif book.spend():
                self._open(key, bad.t, REFUSED, refused=True)
        for key, last in ends:
            if key in self._of(key[0]).open:
                self._close(key, last + 1)
        self._write()
        self._under_way.clear()
        idle = [node for node, book in self._nodes.items() if now - book.used_at > IDLE_S and not book.waiting]
        for node in idle:
            del self._nodes[node]

    def forget(self, node: int) -> None:
        """Let go of what is known of a node; what waits to be written is told again by its agent, which has no ack for it."""
        self._nodes.pop(node, None)

    def held(self) -> set[Source]:
        """The batches of which something is not written: a crash would lose it, were they acked."""
        return self._under_way | {source for book in self._nodes.values() for *_, source in book.waiting.values()}

    def _declared(self, one: Accepted) -> None:
        session, batch = one.session, one.batch
        book = self._of(session.node)
        named = {(session.node, session.gpus[c.gpu] if c.gpu >= 0 else None, c.metric): c.reason for c in batch.absent}
        # A boot's first batch names everything that is absent; what an earlier boot lacked and this one does not is back.
        # So is what has a value here: the batch that said so was lost on the way, as agents drop some when their disk is full.
        names_all = batch.seq == 0
        for key, open_one in book.open.items():
            if key not in named and not open_one.refused and (names_all or _has_value(one, key)):
                named[key] = None
        for key, reason in named.items():
            if key in book.waiting and one.t < book.waiting[key][0]:
                continue
            book.waiting.pop(key, None)
            self._change(session.node, key, one.t, reason, (session, batch.seq))

    def _change(self, node: int, key: Key, t: float, reason: str | None, source: Source) -> None:
        """Note one change that an agent told, now or when the node has a share again."""
        book = self._of(node)
        if t < book.changed_at.get(key, 0.0):
            return
        known = book.open.get(key)
        if known is not None and known.refused and reason is None:
            return  # the agent does not know of it
        if (known.reason if known and not known.refused else None) == reason:
            return
        if not book.spend():
            book.waiting[key] = (t, reason, source)
            return
        if known is not None:
            self._close(key, t)
        if reason is not None:
            self._open(key, t, reason)
        book.changed_at[key] = t

    def _of(self, node: int) -> _NodeBook:
        book = self._nodes.get(node)
        if book is None:
            book = _NodeBook()
            for row in Absence.objects.filter(node_id=node, until=None):
                key, since = (node, row.gpu_id, row.metric), row.since.timestamp()
                book.open[key] = _Open(since, row.reason, since, row, row.refused)
                book.changed_at[key] = since
            self._nodes[node] = book
        return book

    def _open(self, key: Key, t: float, reason: str, *, refused: bool = False) -> None:
        node, gpu, metric = key
        row = Absence(node_id=node, gpu_id=gpu, metric=metric, reason=reason, refused=refused, since=_moment(t))
        self._new.append(row)
        self._of(node).open[key] = _Open(t, reason, t, row, refused)

    def _close(self, key: Key, t: float) -> None:
        known = self._of(key[0]).open.pop(key)
        known.row.until = _moment(max(t, known.since))
        if known.row.pk is not None:  # else it is written with its end
            self._ended.append(known.row)

    def _write(self) -> None:
        """Write what the book is ahead of the database, a part at a time; a part that was written is not written again."""
        while self._new:
            part = self._new[:_ROWS_AT_ONCE]
            try:
                with transaction.atomic():
                    Absence.objects.bulk_create(part)
            except IntegrityError:  # a node or GPU was deleted meanwhile
                for row in part:
                    row.pk = None
                nodes, gpus = _existing({row.node_id for row in part})
                alive = [row for row in part if row.node_id in nodes and (row.gpu_id is None or row.gpu_id in gpus)]
                if len(alive) == len(part):
                    raise
                self._new[: len(part)] = alive
                continue
            del self._new[: len(part)]
        while self._ended:
            part = self._ended[:_ROWS_AT_ONCE]
            _end(part)
            del self._ended[: len(part)]

    def _refusals_that_ended(self, now: float) -> list[tuple[Key, float]]:
        return [
            (key, known.last)
            for book in self._nodes.values()
            for key, known in book.open.items()
            if known.refused and now - known.last > CLOSES_AFTER_S
        ]


def _end(rows: Collection[Absence]) -> None:
    """Write the ends of these rows: one prepared statement, where the ORM would build a case for each row."""
    adapt, table = connection.ops.adapt_datetimefield_value, connection.ops.quote_name(Absence._meta.db_table)
    until = connection.ops.quote_name("until")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(
            f"UPDATE {table} SET {until} = %s WHERE id = %s",  # noqa: S608 - no input in the names
            [(adapt(row.until) if row.until else None, row.pk) for row in rows],
        )


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
    column = batch.gpu[names.index(metric)]
    # an empty column was not read: what was told last holds, and a reading that was absent is absent still
    return bool(column) and gpu in session.gpus and column[session.gpus.index(gpu)] is not None


def _existing(nodes: set[int]) -> tuple[set[int], set[int]]:
    """Which of these nodes are in the inventory, and their GPUs: a person may delete a node while its agent speaks."""
    if not nodes:
        return set(), set()
    return (
        set(Node.objects.filter(pk__in=nodes).values_list("pk", flat=True)),
        set(Gpu.objects.filter(node__in=nodes).values_list("pk", flat=True)),
    )


def _moment(t: float) -> datetime:
    return datetime.fromtimestamp(t, UTC)
