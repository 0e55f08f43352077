"""What agents told in words of the processes and engines that are there now, as the advisor's frames.

Of thousands of processes few say anything new between two looks: their labels are read and parsed when they change.
"""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import polars as pl

from advisor import described, services
from fleet.inventory.models import STILL_THERE, Engine, Gpu, Process

_AT_ONCE: Final = 500
STILL_TOLD: Final = timedelta(days=7)
"""Labels travel when they change: who was told to have a GPU has it until something else is told."""


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
        self._lock = threading.Lock()

    def frame(self, at: datetime, wanted: Collection[str]) -> pl.DataFrame:
        """One row a process that was seen within STILL_THERE before `at`."""
        with self._lock:
            there = dict(Process.objects.filter(last_seen_at__gte=at - STILL_THERE).order_by().values_list("pk", "told_at"))
            gone = self._rows.keys() - there.keys()
            changed = [pk for pk, told in there.items() if (row := self._rows.get(pk)) is None or row.told_at != told]
            for pk in gone:
                del self._rows[pk]
            for first in range(0, len(changed), _AT_ONCE):
                part = Process.objects.filter(pk__in=changed[first : first + _AT_ONCE])
                for pk, told_at, node, pid, labels in part.values_list("pk", "told_at", "node_id", "pid", "labels"):
                    self._rows[pk] = _Read(told_at, node, pid, labels if isinstance(labels, dict) else {})
            asked = frozenset(wanted)
            if self._frame is None or gone or changed or asked != self._wanted:
                newest = {(row.node, row.pid): row for row in sorted(self._rows.values(), key=lambda row: row.told_at)}
                self._wanted = asked
                self._frame = described.described(((row.node, row.pid, row.labels) for row in newest.values()), asked)
            return self._frame

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


def allocations(at: datetime) -> pl.DataFrame:
    """`gpu` and `allocated_to`: the pod or job that a GPU is given to, as dcgm-exporter's labels say, of those that were told lately."""
    since = at - STILL_TOLD
    given = Gpu.objects.filter(labels_told_at__gte=since, present=True).exclude(labels={}).order_by().values_list("pk", "labels")
    rows = [(pk, whom) for pk, labels in given if (whom := labels.get("pod") or labels.get("hpc_job"))]
    return pl.DataFrame(rows, schema={"gpu": pl.Int64, "allocated_to": pl.String}, orient="row")


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
