"""The live ring: the newest readings of this process's nodes and a few metrics' last five minutes, in numpy.

Only live reads it; what must be right for longer is read from the store. Times are the server's clock: the
node's, less its estimated skew, so that an age is an age even where a node's clock is off.
"""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wire import metrics
from wire.metrics import Scope

KEEP_S: Final = 300
HISTORY: Final = ("gpu_util_pct", "sm_active", "power_w", "temperature_c", "mem_used_bytes", "tensor_active", "dram_active")
"""GPU metrics whose last five minutes are kept at one value a second."""

PROCESS_METRICS: Final = tuple(metric.name for metric in metrics.sent("process"))

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Latest:
    """The newest row of each entity of one scope. `values` is (entity, metric), NaN where absent; `at` is NaN where nothing came yet."""

    def __init__(self, scope: Scope) -> None:
        self.names = tuple(metric.name for metric in metrics.sent(scope))
        self.column = {name: number for number, name in enumerate(self.names)}
        self.slots: dict[int, int] = {}
        self._free: list[int] = []
        self.values: Floats = np.full((0, len(self.names)), np.nan)
        self.at: Floats = np.full(0, np.nan)

    def slot(self, entity: int) -> int:
        """The entity's row number, given to it now if it has none."""
        slot = self.slots.get(entity)
        if slot is None:
            if not self._free:
                self._grow()
            slot = self.slots[entity] = self._free.pop()
        return slot

    def drop(self, entity: int) -> None:
        """Forget the entity; its row is given to another."""
        slot = self.slots.pop(entity, None)
        if slot is not None:
            self.values[slot] = np.nan
            self.at[slot] = np.nan
            self._free.append(slot)

    def _grow(self) -> None:
        size = len(self.at)
        more = max(16, size)
        self.values = np.concatenate([self.values, np.full((more, len(self.names)), np.nan)])
        self.at = np.concatenate([self.at, np.full(more, np.nan)])
        self._free.extend(range(size + more - 1, size - 1, -1))

    def put(self, entities: Ints, at: Floats, values: Floats, held: Sequence[str] = ()) -> tuple[Ints, Ints]:
        """Take rows (a later row of one entity wins); the slots and the row numbers of those whose entity is known, in time order.

        Of the metrics in `held` the rows tell nothing: what is known of them stays.
        """
        slots = np.fromiter((self.slots.get(entity, -1) for entity in entities.tolist()), np.int64, len(entities))
        rows = np.argsort(at, kind="stable")
        rows = rows[slots[rows] >= 0]
        slots = slots[rows]
        newer = ~(at[rows] < self.at[slots])  # true also where nothing came yet, which is NaN
        fresh = values[rows[newer]]
        for name in held:
            fresh[:, self.column[name]] = self.values[slots[newer], self.column[name]]
        self.values[slots[newer]] = fresh  # numpy assigns in order: the last of a repeated slot stays
        self.at[slots[newer]] = at[rows[newer]]
        return slots, rows


@dataclass(frozen=True, slots=True)
class ProcessRow:
    """One process on one GPU, as its node last told. `values` follows the registry's order of process metrics."""

    gpu: int
    pid: int
    name: str | None
    user: str | None
    gpu_mem_bytes: float | None
    values: tuple[float | None, ...]


@dataclass(slots=True)
class _Node:
    gpus: tuple[int, ...] = ()
    processes_at: float = float("-inf")
    processes: tuple[pl.DataFrame, int, int] | None = None


@dataclass(slots=True)
class Ring:
    """All of it. Every public method takes the lock: the writer's thread fills, the event loop reads."""

    gpu: Latest = field(default_factory=lambda: Latest("gpu"))
    host: Latest = field(default_factory=lambda: Latest("host"))
    lock: threading.RLock = field(default_factory=threading.RLock)
    nodes: dict[int, _Node] = field(default_factory=dict)
    node_of: dict[int, int] = field(default_factory=dict)
    _history: NDArray[np.float32] = field(default_factory=lambda: np.zeros((len(HISTORY), 0, KEEP_S), np.float32))
    _stamps: Ints = field(default_factory=lambda: np.zeros((0, KEEP_S), np.int64))

    def enrol(self, node: int, gpus: Sequence[int]) -> None:
        """Make room for a node; GPUs that it no longer lists are forgotten."""
        with self.lock:
            entry = self.nodes.setdefault(node, _Node())
            for gone in set(entry.gpus) - set(gpus):
                slot = self.gpu.slots.get(gone)
                if slot is not None:
                    self._stamps[slot] = 0
                self.gpu.drop(gone)
                self.node_of.pop(gone, None)
            entry.gpus = tuple(gpus)
            self.host.slot(node)
            for gpu in gpus:
                self.gpu.slot(gpu)
                self.node_of[gpu] = node
            missing = len(self.gpu.at) - len(self._stamps)
            if missing:
                # Zeros take no memory until they are written, and no reading is looked at without its stamp.
                known = len(self._stamps)
                stamps = np.zeros((known + missing, KEEP_S), np.int64)
                history = np.zeros((len(HISTORY), known + missing, KEEP_S), np.float32)
                stamps[:known], history[:, :known] = self._stamps, self._history
                self._stamps, self._history = stamps, history

    def forget(self, node: int) -> None:
        """Forget a node that is no longer in the inventory, and its GPUs."""
        with self.lock:
            self.enrol(node, ())
            self.host.drop(node)
            del self.nodes[node]

    def put_gpus(self, entities: Ints, at: Floats, values: Floats, held: Sequence[str] = ()) -> None:
        """Rows of GPUs: `values` is (row, metric) in registry order, NaN where absent; of the metrics in `held` nothing new is told.

        Rows of unknown GPUs are passed over.
        """
        with self.lock:
            slots, rows = self.gpu.put(entities, at, values, held)
            if not len(rows):
                return
            seconds = np.floor(at[rows]).astype(np.int64)
            recent = seconds > seconds.max() - KEEP_S
            slots, rows, seconds = slots[recent], rows[recent], seconds[recent]
            places = seconds % KEEP_S
            fresh = seconds >= self._stamps[slots, places]  # what a backlog brings late never hides what is newer
            slots, rows, seconds, places = slots[fresh], rows[fresh], seconds[fresh], places[fresh]
            self._stamps[slots, places] = seconds
            columns = [self.gpu.column[name] for name in HISTORY]
            self._history[:, slots, places] = values[np.ix_(rows, columns)].T

    def put_hosts(self, entities: Ints, at: Floats, values: Floats) -> None:
        """Rows of nodes, as `put_gpus`."""
        with self.lock:
            self.host.put(entities, at, values)

    def put_processes(self, node: int, at: float, frame: pl.DataFrame, start: int, end: int) -> None:
        """All processes of one node at one time: rows `start` to `end` of the frame. An older list than the one known is passed over."""
        with self.lock:
            entry = self.nodes.get(node)
            if entry is not None and at >= entry.processes_at:
                entry.processes_at = at
                entry.processes = (frame, start, end)

    def processes(self, node: int) -> list[ProcessRow]:
        """What holds the node's GPUs, as it last told."""
        with self.lock:
            entry = self.nodes.get(node)
            if entry is None or entry.processes is None:
                return []
            frame, start, end = entry.processes
        known = set(frame.columns)
        return [
            ProcessRow(
                row["entity"],
                row["pid"],
                row["name"],
                row["user"],
                row["gpu_mem_bytes"],
                tuple(row[name] if name in known else None for name in PROCESS_METRICS),
            )
            for row in frame.slice(start, end - start).iter_rows(named=True)
        ]

    def history(self, gpu: int, now: float) -> Mapping[str, list[float | int | None]]:
        """`ts` (whole seconds, rising, gaps left out) and one list for each metric of HISTORY; empty lists for an unknown GPU."""
        with self.lock:
            slot = self.gpu.slots.get(gpu)
            if slot is None:
                return {"ts": [], **{name: [] for name in HISTORY}}
            stamps = self._stamps[slot]
            places = np.flatnonzero(stamps > now - KEEP_S)
            places = places[np.argsort(stamps[places])]
            found: dict[str, list[float | int | None]] = {"ts": stamps[places].tolist()}
            for number, name in enumerate(HISTORY):
                found[name] = [None if value != value else value for value in self._history[number, slot, places].tolist()]
            return found


_ring = Ring()


def ring() -> Ring:
    """This process's ring."""
    return _ring
