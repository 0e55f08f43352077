"""What agents told in words of the processes and engines that are there now, as the advisor's frames.

Of thousands of processes few say anything new between two looks: their labels are read and parsed when they change.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import polars as pl

from advisor import described, services
from fleet.inventory.models import STILL_THERE, Engine, Process

_AT_ONCE: Final = 500


@dataclass(slots=True)
class _Read:
    told_at: datetime
    node: int
    pid: int
    labels: Mapping[str, str]


class Words:
    """The labels of the processes that are there; `frame` gives them as `described.described` makes them."""

    def __init__(self) -> None:
        self._rows: dict[int, _Read] = {}
        self._wanted: frozenset[str] = frozenset()
        self._frame: pl.DataFrame | None = None
        self._labels: dict[tuple[int, int], Mapping[str, str]] | None = None
        self._at: datetime | None = None
        self._lock = threading.Lock()

    def labels(self, at: datetime) -> Mapping[tuple[int, int], Mapping[str, str]]:
        """By node and pid the labels of the processes that were seen within STILL_THERE before `at`."""
        with self._lock:
            self._read(at)
            self._at = at
            if self._labels is None:
                self._labels = {(row.node, row.pid): row.labels for row in self._newest()}
            return self._labels

    def frame(self, at: datetime, wanted: Collection[str]) -> pl.DataFrame:
        """One row a process that was seen within STILL_THERE before `at`."""
        with self._lock:
            if self._at != at:  # one look asks for both
                self._read(at)
            self._at = None
            asked = frozenset(wanted)
            if self._frame is None or asked != self._wanted:
                self._wanted = asked
                newest = {(row.node, row.pid): row for row in self._newest()}
                self._frame = described.described(((row.node, row.pid, row.labels) for row in newest.values()), asked)
            return self._frame

    def _read(self, at: datetime) -> None:
        """Bring the rows up to `at`; what was made of them is made anew where they changed."""
        there = dict(Process.objects.filter(last_seen_at__gte=at - STILL_THERE).order_by().values_list("pk", "told_at"))
        gone = self._rows.keys() - there.keys()
        changed = [pk for pk, told in there.items() if (row := self._rows.get(pk)) is None or row.told_at != told]
        for pk in gone:
            del self._rows[pk]
        for first in range(0, len(changed), _AT_ONCE):
            part = Process.objects.filter(pk__in=changed[first : first + _AT_ONCE])
            for pk, told_at, node, pid, labels in part.values_list("pk", "told_at", "node_id", "pid", "labels"):
                self._rows[pk] = _Read(told_at, node, pid, labels if isinstance(labels, dict) else {})
        if gone or changed:
            self._frame = self._labels = None

    def _newest(self) -> list[_Read]:
        """The rows by when they were told, so that of one pid the newest counts."""
        return sorted(self._rows.values(), key=lambda row: row.told_at)

    def serving(self) -> dict[tuple[int, int], str]:
        """The kind of engine that each process of `frame` works for, by node and pid."""
        with self._lock:
            return {(row.node, row.pid): kind for row in self._rows.values() if (kind := row.labels.get("engine"))}


WORDS: Final = Words()


def then(at: datetime, wanted: Collection[str]) -> tuple[pl.DataFrame, dict[tuple[int, int], str]]:
    """`Words.frame` and `Words.serving` of the processes that were there at a time of the past; nothing of it is kept."""
    rows = Process.objects.filter(first_seen_at__lte=at, last_seen_at__gte=at - STILL_THERE).order_by("told_at")
    told = {(node, pid): labels for node, pid, labels in rows.values_list("node_id", "pid", "labels") if isinstance(labels, dict)}
    words = described.described(((node, pid, labels) for (node, pid), labels in told.items()), wanted)
    return words, {who: kind for who, labels in told.items() if (kind := labels.get("engine"))}


def engines(at: datetime, holders: pl.DataFrame, serving: Mapping[tuple[int, int], str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The serving engines that are there, and which processes on which GPUs work for them (columns: services.ENGINES, SERVES).

    `holders`: `node`, `gpu`, `pid` of who holds what. An engine's own process is often a front without a GPU; then the processes that
    were started as its kind on its node are its own, where it is the only one of its kind there.
    """
    there = list(
        Engine.objects.filter(last_seen_at__gte=at - STILL_THERE)
        .order_by("pk")
        .values_list("pk", "node_id", "kind", "model", "pid")
    )
    named = pl.DataFrame([row[:4] for row in there], schema=services.ENGINES, orient="row")
    held: dict[tuple[int, int], list[int]] = {}
    for node, gpu, pid in holders.select("node", "gpu", "pid").unique(maintain_order=True).iter_rows():
        held.setdefault((node, pid), []).append(gpu)
    of_kind: dict[tuple[int, str], list[int]] = {}
    for (node, pid), kind in serving.items():
        if (node, pid) in held:
            of_kind.setdefault((node, kind), []).append(pid)
    count: dict[tuple[int, str], int] = {}
    for _, node, kind, _, _ in there:
        count[node, kind] = count.get((node, kind), 0) + 1
    rows = []
    for pk, node, kind, _, pid in there:
        pids = (
            [pid] if pid is not None and (node, pid) in held else of_kind.get((node, kind), []) if count[node, kind] == 1 else []
        )
        rows += [(pk, gpu, one) for one in sorted(pids) for gpu in held[node, one]]
    return named, pl.DataFrame(rows, schema=services.SERVES, orient="row")
