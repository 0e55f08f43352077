"""What the pages show of the store: newest rows by id, and host rates from two of them.

The store is at most one flush behind, so a page need not read the whole fleet for every viewer: fleet-wide
reads are kept for a few seconds in this process.
"""

import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import polars as pl

from fleet.inventory.models import STALE_AFTER, Gpu, Node
from fleet.store import clock
from fleet.store.series import StoreError
from wire.metrics import Scope, sent

Row: TypeAlias = dict[str, Any]
FRESH_S: Final = int(STALE_AFTER.total_seconds())
KEEP_S: Final = 3.0
BUSY_FROM: Final = 0.01
"""A GPU counts as busy from this SM activity on; where that is not measured, utilisation takes its place."""


def newest(scope: Scope, entities: Collection[int]) -> dict[int, Row]:
    """The newest row of each entity that has one young enough to be true now; others are missing, not zero."""
    if not entities:
        return {}
    since = int(time.time()) - FRESH_S
    try:
        frame = clock.latest(scope, since, entities)
    except StoreError:
        return {}
    return {row["entity"]: row for row in frame.iter_rows(named=True)}


def processes(gpus: Collection[int]) -> list[Row]:
    """One row for each process that holds one of the GPUs now: `pid`, `name`, `user`, `gpus` (ids), metrics.

    `gpu_mem_bytes` is what it holds of all of them; None where one of them does not say.
    """
    if not gpus:
        return []
    try:
        frame = clock.latest("process", int(time.time()) - FRESH_S, gpus)
    except StoreError:
        return []
    found: dict[int, Row] = {}
    for row in frame.sort("entity", "pid").iter_rows(named=True):
        process = found.setdefault(row["pid"], row | {"gpus": [], "gpu_mem_bytes": 0})
        process["gpus"].append(row["entity"])
        held, before = row.get("gpu_mem_bytes"), process["gpu_mem_bytes"]
        process["gpu_mem_bytes"] = None if held is None or before is None else before + held
    return list(found.values())


HOST_RATES: Final = {
    "disk_read_bytes_per_s": "disk_read_bytes_total",
    "disk_write_bytes_per_s": "disk_write_bytes_total",
    "net_rx_bytes_per_s": "net_rx_bytes_total",
    "net_tx_bytes_per_s": "net_tx_bytes_total",
}


def host(node: int) -> Row:
    """The node's newest host row, with counters turned into rates over the last half minute; absent ones None."""
    end = int(time.time()) + 2
    try:
        frame = clock.window("host", end - FRESH_S - 2, end, [node])
    except StoreError:
        return {}
    if frame.is_empty():
        return {}
    first, last = frame.row(0, named=True), frame.row(-1, named=True)
    elapsed = last["ts"] - first["ts"]
    for name, counter in HOST_RATES.items():
        before, after = first.get(counter), last.get(counter)
        last[name] = None
        if before is not None and after is not None and elapsed > 0 and after >= before:
            last[name] = (after - before) / elapsed
    return last


ENGINE_METRICS: Final = tuple(metric.name for metric in sent("engine"))
ENGINE_RATES: Final = {"generation_tokens_per_s": "generation_tokens_total"}
ENGINE_SPAN_S: Final = 60
SCRAPE_S: Final = 20
"""Agents ask engines more seldom than once a second; in between their counters stand still in the rows."""


def engines(ids: Collection[int]) -> dict[int, Row]:
    """The newest row of each engine that has one young enough to be true now, with ENGINE_RATES over the last minute."""
    if not ids:
        return {}
    end = int(time.time()) + 2
    try:
        frame = clock.window("engine", end - ENGINE_SPAN_S - 2, end, ids)
    except StoreError:
        return {}
    found: dict[int, Row] = {}
    for (entity,), rows in frame.group_by("entity"):
        rows = rows.sort("ts")
        last = rows.row(-1, named=True)
        if end - 2 - last["ts"] <= FRESH_S:
            for name, counter in ENGINE_RATES.items():
                last[name] = rate(rows.select("ts", counter).drop_nulls().rows())
            found[int(entity)] = last
    return found


def rate(points: Sequence[tuple[int, float]]) -> float | None:
    """A counter's growth a second, from (ts, value) in time order; None where nothing can be said yet.

    A counter that is read more seldom than it is stored moves in steps: what counts is the time from step to step. One
    that fell began anew, and what was before says nothing.
    """
    begun = max((at for at in range(1, len(points)) if points[at][1] < points[at - 1][1]), default=0)
    points = points[begun:]
    steps = [points[at] for at in range(1, len(points)) if points[at][1] != points[at - 1][1]]
    if len(steps) > 1 and points[-1][0] - steps[-1][0] <= SCRAPE_S:
        points = steps
    elapsed = points[-1][0] - points[0][0] if points else 0
    return (points[-1][1] - points[0][1]) / elapsed if steps and elapsed else 0.0 if elapsed > SCRAPE_S else None


@dataclass(frozen=True, slots=True)
class Summary:
    """The fleet in numbers. Each GPU is in exactly one of busy, idle, unmeasured and stale."""

    gpus: int
    busy: int
    idle: int
    unmeasured: int
    stale: int
    power_w: float | None
    power_from: int  # how many GPUs the sum rests on


ACTIVITY: Final = pl.coalesce(pl.col("sm_active"), pl.col("gpu_util_pct") / 100)


def with_columns(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """The frame with each of the columns; what no one wrote is a column of nulls."""
    return frame.with_columns(pl.lit(None, pl.Float64).alias(name) for name in names if name not in frame.columns)


MAP_METRICS: Final = (
    "sm_active",
    "gpu_util_pct",
    "mem_used_bytes",
    "mem_total_bytes",
    "power_w",
    "power_limit_w",
    "temperature_c",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole fleet at one moment: nodes in name order, their GPUs in NVML's order, the newest row of each."""

    nodes: tuple[Node, ...]
    gpus: tuple[tuple[int, int, int], ...]  # (id, node id, index) of those present
    newest: pl.DataFrame  # `entity`, `ts` and MAP_METRICS, of GPUs whose node is heard of alone

    @property
    def silent(self) -> tuple[Node, ...]:
        """The nodes whose state is unknown."""
        return tuple(node for node in self.nodes if node.is_stale)


class Fleet:
    """The snapshot, read at most once in KEEP_S for all viewers of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._snapshot: Snapshot | None = None

    def snapshot(self) -> Snapshot:
        """The fleet as it was at most KEEP_S ago."""
        with self._lock:  # one reads, the others take what it brings
            if self._snapshot is None or time.monotonic() - self._read_at > KEEP_S:
                self._snapshot = _read()
                self._read_at = time.monotonic()
            return self._snapshot

    def forget(self) -> None:
        """Read anew at the next call."""
        self._snapshot = None


fleet = Fleet()


def _read() -> Snapshot:
    nodes = tuple(Node.objects.only("name", "recording", "last_seen_at"))
    gpus = tuple(Gpu.objects.filter(present=True).order_by("node__name", "index").values_list("id", "node_id", "index"))
    try:
        frame = clock.latest("gpu", int(time.time()) - FRESH_S, metrics=MAP_METRICS)
    except StoreError:
        frame = pl.DataFrame()
    keys = {"entity": pl.Int64, "ts": pl.Int64}
    frame = frame.with_columns(pl.lit(None, kind).alias(name) for name, kind in keys.items() if name not in frame.columns)
    live = {node.pk for node in nodes if not node.is_stale}
    heard = [gpu for gpu, node, _ in gpus if node in live]
    frame = with_columns(frame, MAP_METRICS).filter(pl.col("entity").is_in(heard))
    return Snapshot(nodes, gpus, frame.select("entity", "ts", *MAP_METRICS))


def summarise(snapshot: Snapshot) -> Summary:
    """The fleet in numbers."""
    known = snapshot.newest
    activity = known.select(ACTIVITY.alias("activity"))["activity"]
    busy = int((activity >= BUSY_FROM).sum())
    idle = int((activity < BUSY_FROM).sum())
    power = known["power_w"].drop_nulls()
    return Summary(
        gpus=len(snapshot.gpus),
        busy=busy,
        idle=idle,
        unmeasured=known.height - busy - idle,
        stale=len(snapshot.gpus) - known.height,
        power_w=float(power.sum()) if power.len() else None,
        power_from=power.len(),
    )


def by_node(snapshot: Snapshot) -> dict[int, Row]:
    """For each node with a GPU heard of: `busy`, `known`, `sm_active` (mean), `power_w` (sum); overview.js follows them."""
    owner = pl.DataFrame(
        [(gpu, node) for gpu, node, _ in snapshot.gpus], schema={"entity": pl.Int64, "node": pl.Int64}, orient="row"
    )
    some = pl.col("power_w").is_not_null().any()
    rows = (
        snapshot.newest.with_columns(pl.col("entity").cast(pl.Int64), ACTIVITY.alias("activity"))
        .join(owner, on="entity")
        .group_by("node")
        .agg(
            pl.col("activity").is_not_null().sum().alias("known"),
            pl.when(pl.col("activity").is_not_null().any()).then((pl.col("activity") >= BUSY_FROM).sum()).alias("busy"),
            pl.col("sm_active").mean(),
            pl.when(some).then(pl.col("power_w").sum()).alias("power_w"),
        )
    )
    return {row["node"]: row for row in rows.iter_rows(named=True)}


def heat_map(snapshot: Snapshot) -> dict[str, Any]:
    """The map's first frame: nodes with their GPUs, and one column a metric in the order of `gpus`; null is absent."""
    order = pl.DataFrame({"entity": [gpu for gpu, _, _ in snapshot.gpus]}, schema={"entity": pl.Int64})
    newest = snapshot.newest.with_columns(pl.col("entity").cast(pl.Int64))
    rows = order.join(newest, on="entity", how="left", maintain_order="left")
    return {
        "nodes": [
            {"id": node.pk, "name": node.name, "recording": node.recording, "stale": node.is_stale, "since": _epoch(node)}
            for node in snapshot.nodes
        ],
        "gpus": [list(gpu) for gpu in snapshot.gpus],
        "heard": rows["ts"].is_not_null().to_list(),
        "values": {name: rows[name].cast(pl.Float64).round(4).to_list() for name in MAP_METRICS},
    }


def _epoch(node: Node) -> int | None:
    return None if node.last_seen_at is None else int(node.last_seen_at.timestamp())
