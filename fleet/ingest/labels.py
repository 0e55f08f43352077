"""What agents tell of processes in words, as rows: one a process, its labels the newest that were told.

Agents name a process's labels when they first see it and when these change. Nobody tells when a process began, and the
kernel gives pids anew, so the book remembers for an hour who was listed when: a pid that was not listed for GAP_S and
comes back with another name or other labels is another process. A name alone may change at any time (an engine calls
itself something else once it runs), and so may labels.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import connection, transaction

from fleet.ingest.accept import clean
from fleet.ingest.columns import Accepted, Chunk
from fleet.inventory.models import Node, Process
from wire.labels import MAX_LABEL

GAP_S: Final = 30.0
"""Listings miss a process for seconds (a driver that hangs); a pid is not given anew so soon."""
KEEP_S: Final = 3_600.0
"""So long a process that is not listed is remembered, and so is a node that is silent."""
SEEN_EVERY_S: Final = 60.0
"""How exact `last_seen_at` is: a process that is there does not make a write of each flush."""
MAX_ROWS: Final = 10_000
"""Of one node; those seen last stay."""
_TRIM_AFTER: Final = 500
"""New rows of one node, after which they are counted."""
_IN_ONE_QUERY: Final = 500


@dataclass(slots=True)
class _Known:
    """One process: a hash of its labels, and times on the server's clock. `pk` is 0 until its row is written."""

    pk: int
    name: str
    mark: int
    first: float
    told: float
    seen: float
    written: float


@dataclass(slots=True)
class _NodeBook:
    known: dict[int, _Known] = field(default_factory=dict)
    used_at: float = 0.0
    swept_at: float = 0.0


@dataclass(slots=True)
class LabelBook:
    """The processes of the nodes that this process serves. Only the store's thread uses it.

    `apply` is called before the chunk is acked, and may be called twice with the same one: what is not newer than what is
    known changes nothing. What the database would not take is written first by the next call.
    """

    _nodes: dict[int, _NodeBook] = field(default_factory=dict)
    _new: dict[tuple[int, int, float], tuple[_Known, dict[str, str]]] = field(default_factory=dict)
    _told: dict[int, tuple[_Known, dict[str, str]]] = field(default_factory=dict)  # by id() of what is known
    _seen: dict[int, _Known] = field(default_factory=dict)
    _rows_of: Counter[int] = field(default_factory=Counter)  # new ones by node, since they were last counted

    def apply(self, chunks: Iterable[Chunk]) -> None:
        """Bring the rows up to these chunks, in short transactions."""
        taken = [one for chunk in chunks for one in chunk.taken if one.batch.processes.pid or one.batch.processes.labels]
        now = max((one.at for one in taken), default=time.time())
        self._load({one.session.node for one in taken}, now)
        for one in sorted(taken, key=lambda one: one.t):
            self._take(one)
        self._write()
        for node in {one.session.node for one in taken}:
            self._sweep(self._nodes[node], now)
        for node in [node for node, book in self._nodes.items() if now - book.used_at > KEEP_S]:
            del self._nodes[node]

    def forget(self, node: int) -> None:
        """Let go of what is known of a node; what is not written yet is."""
        self._nodes.pop(node, None)

    def _load(self, nodes: set[int], now: float) -> None:
        unknown = sorted(nodes - self._nodes.keys())
        for node in nodes:
            self._nodes.setdefault(node, _NodeBook(swept_at=now)).used_at = now
        since = datetime.fromtimestamp(now, UTC) - timedelta(seconds=KEEP_S)
        for part in _parts(unknown):
            for row in Process.objects.filter(node__in=part, last_seen_at__gte=since).order_by("last_seen_at"):
                seen = row.last_seen_at.timestamp()
                known = _Known(
                    row.pk, row.name, _mark(row.labels), row.first_seen_at.timestamp(), row.told_at.timestamp(), seen, seen
                )
                self._nodes[row.node_id].known[row.pid] = known

    def _take(self, one: Accepted) -> None:
        node, t, processes = one.session.node, one.t, one.batch.processes
        known = self._nodes[node].known
        told = {labels.pid: labels.labels for labels in processes.labels}
        names = dict(zip(processes.pid, processes.name, strict=True))
        for pid, labels in told.items():
            self._labels(node, pid, names.get(pid), labels, t)
        for pid, name in names.items():
            process = known.get(pid)
            if process is None or t <= process.seen:
                continue
            if t - process.seen > GAP_S and pid not in told and clean(name, 64) != process.name:
                del known[pid]  # another one, of which nothing was told
                continue
            process.seen = t
            if t - process.written >= SEEN_EVERY_S:
                self._seen[id(process)] = process

    def _labels(self, node: int, pid: int, raw_name: str | None, raw: Mapping[str, str], t: float) -> None:
        labels = {key: clean(value, MAX_LABEL) for key, value in raw.items()}
        name = None if raw_name is None else clean(raw_name, 64)
        known = self._nodes[node].known.get(pid)
        mark = _mark(labels)
        if known is None:
            if labels:
                self._nodes[node].known[pid] = self._add(node, pid, name or "", labels, t)
            return
        is_same = mark == known.mark and name in (None, known.name)
        if t < known.told:
            if not is_same and name is not None and t < known.first - GAP_S:
                self._add(node, pid, name, labels, t)  # a backlog tells of one that had the pid before
        elif is_same:
            known.told = t
        elif t - known.seen > GAP_S and name is not None:
            self._nodes[node].known[pid] = self._add(node, pid, name, labels, t)
        else:
            known.mark, known.name, known.told = mark, name if name is not None else known.name, t
            known.seen = max(known.seen, t)
            self._told[id(known)] = (known, labels)

    def _add(self, node: int, pid: int, name: str, labels: dict[str, str], t: float) -> _Known:
        known = _Known(0, name, _mark(labels), t, t, t, t)
        self._new[node, pid, t] = (known, labels)
        return known

    def _write(self) -> None:
        while self._new:
            self._create([*self._new][:_IN_ONE_QUERY])
        table = connection.ops.quote_name(Process._meta.db_table)
        while self._told:
            told = {key: self._told[key] for key in [*self._told][:_IN_ONE_QUERY]}
            rows = [
                (known.name, json.dumps(labels), _adapted(known.told), _adapted(known.seen), known.pk)
                for known, labels in told.values()
            ]
            sql = f"UPDATE {table} SET name = %s, labels = %s, told_at = %s, last_seen_at = %s WHERE id = %s"  # noqa: S608 - no input
            _execute(sql, rows)
            for key, (known, _) in told.items():
                known.written = known.seen
                del self._told[key]
        while self._seen:
            seen = {key: self._seen[key] for key in [*self._seen][:_IN_ONE_QUERY]}
            sql = f"UPDATE {table} SET last_seen_at = %s WHERE id = %s"  # noqa: S608 - no input
            _execute(sql, [(_adapted(known.seen), known.pk) for known in seen.values()])
            for key, known in seen.items():
                known.written = known.seen
                del self._seen[key]
        for node in [node for node, number in self._rows_of.items() if number >= _TRIM_AFTER]:
            _trim(node)
            del self._rows_of[node]

    def _create(self, keys: Sequence[tuple[int, int, float]]) -> None:
        here = set(Node.objects.filter(pk__in={node for node, *_ in keys}).values_list("pk", flat=True))
        wanted = [key for key in keys if key[0] in here]  # a person may delete a node while its agent speaks
        rows = []
        for node, pid, first in wanted:
            known, labels = self._new[node, pid, first]
            rows.append(
                Process(node_id=node, pid=pid, name=known.name, labels=labels, first_seen_at=_moment(first),
                        told_at=_moment(known.told), last_seen_at=_moment(known.seen))
            )  # fmt: skip
        made = Process.objects.bulk_create(  # a batch that comes again after a crash brings the same rows
            rows,
            update_conflicts=True,
            unique_fields=["node", "pid", "first_seen_at"],
            update_fields=["name", "labels", "told_at", "last_seen_at"],
        )
        for key, row in zip(wanted, made, strict=True):
            known, _ = self._new[key]
            known.pk, known.written = row.pk, known.seen
        for key in keys:
            del self._new[key]
            self._rows_of[key[0]] += 1

    def _sweep(self, book: _NodeBook, now: float) -> None:
        """Forget processes that were not listed for long."""
        if now - book.swept_at >= KEEP_S / 4:
            book.known = {pid: known for pid, known in book.known.items() if now - known.seen <= KEEP_S}
            book.swept_at = now


def _trim(node: int) -> None:
    rows = Process.objects.filter(node=node).order_by("-last_seen_at", "-pk")
    over = list(rows.values_list("pk", flat=True)[MAX_ROWS : MAX_ROWS + 4 * _TRIM_AFTER])
    for part in _parts(over):
        Process.objects.filter(pk__in=part).delete()


def _mark(labels: Mapping[str, str]) -> int:
    return hash(frozenset(labels.items()))


def _execute(sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(sql, rows)


def _parts(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + _IN_ONE_QUERY] for start in range(0, len(ids), _IN_ONE_QUERY)]


def _moment(t: float) -> datetime:
    return datetime.fromtimestamp(t, UTC)


def _adapted(t: float) -> Any:
    return connection.ops.adapt_datetimefield_value(_moment(t))
