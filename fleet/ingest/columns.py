"""Many accepted batches at once: columns for the store, rows for the ring, values gated by what is physically possible.

A value outside its metric's range, or NaN, becomes null; that it did is counted and kept as an absence.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import compress, repeat
from typing import Final

import numpy as np
import polars as pl

from fleet.ingest.accept import Layout, Session, clean
from fleet.ingest.window import Floats, Ring
from wire import metrics
from wire.messages import Batch, Cell
from wire.metrics import Metric, Number, Scope

SCOPES: Final[tuple[Scope, ...]] = ("gpu", "host", "process")
_MAX_HELD_BYTES: Final = 1 << 43


@dataclass(frozen=True, slots=True)
class Accepted:
    """A batch that passed its checks. `at` is when it was taken on the server's clock, `size` its bytes in the queue."""

    session: Session
    batch: Batch
    at: float
    size: int

    @property
    def t(self) -> float:
        """The batch's time on the server's clock, moved by whole seconds as readers of the store move its rows."""
        return self.batch.t - self.session.skew.whole


@dataclass(frozen=True, slots=True)
class Impossible:
    """A value that was refused at `t` on the server's clock. `gpu` is None for the host's and an engine's."""

    node: int
    node_name: str
    gpu: int | None
    metric: str
    t: float
    of_engine: bool = False


@dataclass(slots=True)
class Chunk:
    """What some batches became: frames to store, and what to do once they are."""

    taken: list[Accepted]
    frames: dict[Scope, list[pl.DataFrame]] = field(default_factory=lambda: {scope: [] for scope in SCOPES})
    impossible: list[Impossible] = field(default_factory=list)
    engines: list[pl.DataFrame] = field(default_factory=list)
    """Rows of serving engines by `node` and `name`; only the database knows their ids (engines.py)."""


def by_session(chunks: list[Chunk]) -> dict[Session, list[Accepted]]:
    """What was taken, by the session that sent it."""
    found: dict[Session, list[Accepted]] = defaultdict(list)
    for chunk in chunks:
        for one in chunk.taken:
            found[one.session].append(one)
    return found


@cache
def _gate(scope: Scope, name: str) -> pl.Expr:
    """The column where it is possible, null elsewhere; NaN sorts above every number, so it is never between."""
    metric: Metric = metrics.BY_KEY[f"{scope}.{name}"]
    column = pl.col(name)
    possible = column.is_between(metric.low, metric.high)
    if metric.is_integer:
        possible &= column == column.floor()
    return pl.when(possible).then(column).alias(name)


def _column(name: str, values: Sequence[Cell]) -> pl.Series:
    try:
        return pl.Series(name, values, dtype=pl.Float64)
    except (OverflowError, TypeError, pl.exceptions.PolarsError):  # a JSON integer beyond any float
        return pl.Series(name, [_finite(value) for value in values], dtype=pl.Float64)


def _finite(value: Cell) -> float | None:
    try:
        return None if value is None else float(value)
    except OverflowError:
        return float("nan")


def gather(taken: list[Accepted], ring: Ring) -> Chunk:
    """The chunk of these batches; the ring has their newest readings when it returns."""
    chunk = Chunk(taken)
    by_layout: dict[str, list[Accepted]] = {}
    for one in taken:
        by_layout.setdefault(one.session.layout.schema, []).append(one)
    for group in by_layout.values():
        layout = group[0].session.layout
        _gpus(group, layout, chunk, ring)
        _hosts(group, layout, chunk, ring)
        _processes(group, layout, chunk, ring)
        _engines(group, layout, chunk)
    return chunk


def _at(one: Accepted) -> float:
    """The batch's time on the server's clock; never in the future."""
    return min(one.batch.t - (one.session.skew.value or 0.0), one.at)


def _gpus(group: list[Accepted], layout: Layout, chunk: Chunk, ring: Ring) -> None:
    """Frames of batches that tell the same columns, those with most first: a later one may hold what an earlier one told."""
    alike: dict[tuple[bool, ...], list[Accepted]] = {}
    for one in group:
        if one.session.gpus:
            alike.setdefault(tuple(map(bool, one.batch.gpu)), []).append(one)
    for told in sorted(alike, key=sum, reverse=True):
        _gpus_alike(alike[told], layout, told, chunk, ring)


def _gpus_alike(group: list[Accepted], layout: Layout, told: tuple[bool, ...], chunk: Chunk, ring: Ring) -> None:
    names = tuple(compress(layout.gpu, told))
    columns: list[list[Cell]] = [[] for _ in names]
    entities: list[int] = []
    for one in group:
        entities.extend(one.session.gpus)
        for column, values in zip(columns, compress(one.batch.gpu, told), strict=True):
            column.extend(values)
    counts = np.fromiter((len(one.session.gpus) for one in group), np.int64, len(group))
    t = np.repeat(np.fromiter((one.batch.t for one in group), np.float64, len(group)), counts)
    at = np.repeat(np.fromiter(map(_at, group), np.float64, len(group)), counts)
    entity = np.array(entities, np.int64)
    gated = _gated("gpu", names, columns, chunk, entity, t, [one.session for one in group for _ in one.session.gpus])
    chunk.frames["gpu"].append(_keyed(entity, t, gated))
    held = [name for name, is_told in zip(layout.gpu, told, strict=True) if not is_told]
    ring.put_gpus(entity, at, _in_order(gated, ring.gpu.names), held)


def _hosts(group: list[Accepted], layout: Layout, chunk: Chunk, ring: Ring) -> None:
    if not layout.host:
        return
    columns = [[one.batch.host[number] for one in group] for number in range(len(layout.host))]
    entity = np.fromiter((one.session.node for one in group), np.int64, len(group))
    t = np.fromiter((one.batch.t for one in group), np.float64, len(group))
    gated = _gated("host", layout.host, columns, chunk, entity, t, [one.session for one in group])
    chunk.frames["host"].append(_keyed(entity, t, gated))
    ring.put_hosts(entity, np.fromiter(map(_at, group), np.float64, len(group)), _in_order(gated, ring.host.names))


def _processes(group: list[Accepted], layout: Layout, chunk: Chunk, ring: Ring) -> None:
    columns: list[list[Cell]] = [[] for _ in layout.process]
    entity: list[int] = []
    pid: list[int] = []
    t: list[float] = []
    held: list[Number | None] = []
    name: list[str | None] = []
    user: list[str | None] = []
    sessions: list[Session] = []
    ends: list[int] = []
    for one in group:
        processes = one.batch.processes
        if processes.holds:
            place = {number: index for index, number in enumerate(processes.pid)}
            for hold in processes.holds:
                index = place.get(hold.pid)
                entity.append(one.session.gpus[hold.gpu])
                pid.append(hold.pid)
                held.append(hold.mem_bytes if hold.mem_bytes is not None and 0 <= hold.mem_bytes <= _MAX_HELD_BYTES else None)
                if index is None:  # it holds a GPU, and /proc no longer knows it
                    name.append(None)
                    user.append(None)
                    for column in columns:
                        column.append(None)
                else:
                    name.append(clean(processes.name[index], 64))
                    user.append(clean(processes.user[index], 64))
                    for column, values in zip(columns, processes.values, strict=True):
                        column.append(values[index])
            count = len(processes.holds)
            t.extend(repeat(one.batch.t, count))
            sessions.extend(repeat(one.session, count))
        ends.append(len(entity))
    entities = np.array(entity, np.int64)
    gated = _gated("process", layout.process, columns, chunk, entities, np.array(t, np.float64), sessions)
    frame = _keyed(entities, np.array(t, np.float64), gated).with_columns(
        pl.Series("pid", pid, dtype=pl.Int64),
        pl.Series("gpu_mem_bytes", held, dtype=pl.Float64),
        pl.Series("name", name, dtype=pl.String),
        pl.Series("user", user, dtype=pl.String),
    )
    if len(frame):
        chunk.frames["process"].append(frame)
    start = 0
    for one, end in zip(group, ends, strict=True):
        ring.put_processes(one.session.node, _at(one), frame, start, end)
        start = end


def _engines(group: list[Accepted], layout: Layout, chunk: Chunk) -> None:
    columns: list[list[Cell]] = [[] for _ in layout.engine]
    name: list[str] = []
    sessions: list[Session] = []
    t: list[float] = []
    for one in group:
        engines = one.batch.engines
        if not engines.name:
            continue
        for column, values in zip(columns, engines.values, strict=True):
            column.extend(values)
        name.extend(engines.name)
        t.extend(repeat(one.batch.t, len(engines.name)))
        sessions.extend(repeat(one.session, len(engines.name)))
    if not name:
        return
    node = np.fromiter((session.node for session in sessions), np.int64, len(sessions))
    gated = _gated("engine", layout.engine, columns, chunk, node, np.array(t, np.float64), sessions)
    rows = _keyed(node, np.array(t, np.float64), gated).rename({"entity": "node"})
    chunk.engines.append(rows.with_columns(pl.Series("name", name, dtype=pl.String)))


def _gated(
    scope: Scope,
    names: tuple[str, ...],
    columns: Iterable[Sequence[Cell]],
    chunk: Chunk,
    entity: "np.typing.NDArray[np.int64]",
    t: Floats,
    sessions: Sequence[Session],
) -> pl.DataFrame:
    given = pl.DataFrame([_column(name, values) for name, values in zip(names, columns, strict=True)])
    gated = given.select([_gate(scope, name) for name in names])
    for name in names:
        if gated[name].null_count() > given[name].null_count():
            rows = (given[name].is_not_null() & gated[name].is_null()).arg_true().to_list()
            chunk.impossible.extend(
                Impossible(
                    sessions[row].node,
                    sessions[row].node_name,
                    None if scope in ("host", "engine") else int(entity[row]),
                    name,
                    float(t[row]) - sessions[row].skew.whole,
                    scope == "engine",
                )
                for row in rows
            )
    return gated


def _keyed(entity: "np.typing.NDArray[np.int64]", t: Floats, gated: pl.DataFrame) -> pl.DataFrame:
    keys = [pl.Series("entity", entity), pl.Series("ts", np.floor(t).astype(np.int64))]
    return pl.DataFrame(keys).hstack(gated) if gated.width else pl.DataFrame(keys)


def _in_order(gated: pl.DataFrame, names: tuple[str, ...]) -> Floats:
    """(row, metric) in registry order; NaN where the layout lacks a metric or a value is null."""
    if tuple(gated.columns) == names:
        return gated.to_numpy()
    values = np.full((gated.height, len(names)), np.nan)
    for number, name in enumerate(names):
        if name in gated.columns:
            values[:, number] = gated[name].to_numpy()
    return values
