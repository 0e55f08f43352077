"""The frames that `/ws/live/` sends, one a second while somebody looks. JSON text; null is absent, never zero.

A page opens `/ws/live/` (same origin, logged in; anyone else is refused with HTTP 403) and sends one message, and
another whenever it wants another view; a subscription replaces the one before:

    {"subscribe": "fleet"}
    {"subscribe": "node", "id": 3}
    {"subscribe": "gpu", "id": 17}

What cannot be understood is answered `{"type": "error", "detail": "..."}`, and the subscription stays as it was.
`id` is the database id of a Node or Gpu. Every frame has `type` (the view) and `t` (the server's clock, epoch
seconds). `age_s` is how long ago the newest reading was taken, null when none came since this server started: a
page shows a value as stale above 10 s and as unknown above 30 s. A slow browser skips frames; nothing queues up.

fleet, one row a GPU in the order of `columns` (FLEET_COLUMNS), rows ordered by id:

    {"type": "fleet", "t": 1750000000.1,
     "columns": ["id", "node", "gpu_util_pct", "sm_active", "power_w", "temperature_c", "mem_used_bytes", "age_s"],
     "rows": [[17, 3, 100.0, 0.13, 301.4, 44.0, 81234567168.0, 0.6], [18, 3, null, null, null, null, null, null]]}

node, its GPUs in the node's order (NODE_COLUMNS), the host's metrics by name, the processes that hold its GPUs
(one entry for each process and GPU; `gpu` is a Gpu's id):

    {"type": "node", "id": 3, "t": 1750000000.1,
     "columns": ["id", "gpu_util_pct", ..., "age_s"], "rows": [[17, 100.0, ..., 0.6]],
     "host": {"cpu_busy_cores": 3.2, "mem_used_bytes": 51e9, ..., "age_s": 0.6},
     "processes": [{"gpu": 17, "pid": 4711, "name": "python", "user": "ann", "gpu_mem_bytes": 8.1e10,
                    "cpu_pct": 100.0, "threads": 80, "children": 8, "children_cpu_pct": 310.0, "rss_bytes": 5e9,
                    "read_chars_total": 1e12, "write_chars_total": 1e9}]}

gpu, every metric of scope gpu by its registry name, and its processes. `history` (the ring's last five minutes, one
value a second, null where absent, seconds without a sample left out) comes in the first frame after subscribing only:

    {"type": "gpu", "id": 17, "node": 3, "t": 1750000000.1, "age_s": 0.6,
     "metrics": {"gpu_util_pct": 100.0, "mem_used_bytes": 8.1e10, "power_w": 301.4, ...},
     "processes": [{"gpu": 17, "pid": 4711, ...}],
     "history": {"ts": [1749999701, ...], "gpu_util_pct": [100.0, ...], "sm_active": [...], "power_w": [...],
                 "temperature_c": [...], "mem_used_bytes": [...], "tensor_active": [...], "dram_active": [...]}}

A GPU or node that no process knows of gets the same shape with nulls and empty lists.

Several processes may take agents in, each with the nodes that are connected to it: each builds its own frame, and
`merged` makes one of them. A node that moved is in two rings; the one with the newer readings counts.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fleet.ingest.window import PROCESS_METRICS, Latest, ProcessRow, Ring
from wire import metrics

FLEET_METRICS: Final = ("gpu_util_pct", "sm_active", "power_w", "temperature_c", "mem_used_bytes")
FLEET_COLUMNS: Final = ("id", "node", *FLEET_METRICS, "age_s")
NODE_METRICS: Final = (
    *FLEET_METRICS,
    "mem_total_bytes",
    "memory_temperature_c",
    "power_limit_w",
    "sm_clock_mhz",
    "clocks_event_reasons",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
)
NODE_COLUMNS: Final = ("id", *NODE_METRICS, "age_s")
_DIGITS: Final = {"ratio": 4, "percent": 1, "watts": 1, "celsius": 1, "cores": 2}

Frame: TypeAlias = dict[str, Any]
"""What is sent, before it is text; NaN where it becomes null."""

_encode = msgspec.json.Encoder().encode  # NaN becomes null


def fleet(ring: Ring, now: float) -> Frame:
    """The fleet frame."""
    with ring.lock:
        ids = sorted(ring.gpu.slots)
        rows = _rows(ring.gpu, ids, FLEET_METRICS, now, [ring.node_of.get(gpu) for gpu in ids])
    return {"type": "fleet", "t": now, "columns": FLEET_COLUMNS, "rows": rows}


def node(ring: Ring, node_id: int, now: float) -> Frame:
    """The frame of one node."""
    with ring.lock:
        entry = ring.nodes.get(node_id)
        gpus = entry.gpus if entry else ()
        return {
            "type": "node",
            "id": node_id,
            "t": now,
            "columns": NODE_COLUMNS,
            "rows": _rows(ring.gpu, gpus, NODE_METRICS, now),
            "host": _named(ring.host, node_id, now),
            "processes": [_process(row) for row in ring.processes(node_id)],
        }


def gpu(ring: Ring, gpu_id: int, now: float, with_history: bool = False) -> Frame:
    """The frame of one GPU; `with_history` for a page that has just subscribed."""
    with ring.lock:
        values = _named(ring.gpu, gpu_id, now)
        node_id = ring.node_of.get(gpu_id)
        frame: dict[str, Any] = {
            "type": "gpu",
            "id": gpu_id,
            "node": node_id,
            "t": now,
            "age_s": values.pop("age_s"),
            "metrics": values,
            "processes": [_process(row) for row in ring.processes(node_id) if row.gpu == gpu_id] if node_id is not None else [],
        }
        if with_history:
            frame["history"] = ring.history(gpu_id, now)
    return frame


def error(detail: str) -> str:
    """The answer to a message that cannot be understood."""
    return text({"type": "error", "detail": detail})


def text(frame: Frame) -> str:
    """The frame as it is sent."""
    return _encode(frame).decode()


def merged(frames: Sequence[Frame]) -> Frame:
    """One frame of those that several processes built of the same view, the first of them this process's own."""
    own, *others = frames
    if not others:
        return own
    if own["type"] == "fleet":
        newest: dict[int, Sequence[Any]] = {}
        for frame in frames:
            for row in frame["rows"]:
                known = newest.get(row[0])
                if known is None or _age(row[-1]) < _age(known[-1]):
                    newest[row[0]] = row
        return {**own, "rows": [newest[entity] for entity in sorted(newest)]}
    best = min(frames, key=_age_of)
    if "history" in own:
        best = {
            **best,
            "history": _spliced(sorted((frame["history"] for frame in frames), key=lambda one: one is best["history"])),
        }
    return {**best, "t": own["t"]}


def _age(age_s: float | None) -> float:
    """The age for comparing: what never came is oldest."""
    return math.inf if age_s is None or age_s != age_s else age_s


def _age_of(frame: Frame) -> float:
    if frame["type"] == "gpu":
        return _age(frame["age_s"])
    return min(_age(age_s) for age_s in (frame["host"]["age_s"], *(row[-1] for row in frame["rows"])))


def _spliced(histories: Sequence[Frame]) -> Frame:
    """One history of several; of a second that two have, the later one's values."""
    columns = list(histories[0])
    by_second = {row[0]: row for history in histories for row in zip(*(history[name] for name in columns), strict=True)}
    rows = [by_second[second] for second in sorted(by_second)]
    return {name: [row[place] for row in rows] for place, name in enumerate(columns)}


def _rounded(values: NDArray[np.float64], name: str) -> list[float]:
    metric = metrics.BY_KEY[f"gpu.{name}"]
    rounded: list[float] = np.round(values, _DIGITS.get(metric.unit, 0)).tolist()
    return rounded


def _ages(at: NDArray[np.float64], now: float) -> list[float]:
    ages: list[float] = np.round(np.maximum(now - at, 0), 1).tolist()
    return ages


def _rows(
    latest: Latest,
    ids: "list[int] | tuple[int, ...]",
    names: tuple[str, ...],
    now: float,
    nodes: "list[int | None] | None" = None,
) -> list[tuple[Any, ...]]:
    slots = [latest.slots[entity] for entity in ids if entity in latest.slots]
    ids = [entity for entity in ids if entity in latest.slots]
    values = latest.values[slots]
    columns: list[list[Any]] = [_rounded(values[:, latest.column[name]], name) for name in names]
    lead: list[list[Any]] = [list(ids)] if nodes is None else [list(ids), nodes]
    return list(zip(*lead, *columns, _ages(latest.at[slots], now), strict=True))


def _named(latest: Latest, entity: int, now: float) -> dict[str, float | None]:
    slot = latest.slots.get(entity)
    if slot is None:
        return {**dict.fromkeys(latest.names), "age_s": None}
    named: dict[str, float | None] = dict(zip(latest.names, latest.values[slot].tolist(), strict=True))
    named["age_s"] = _ages(latest.at[slot : slot + 1], now)[0]
    return named


def _process(row: ProcessRow) -> dict[str, Any]:
    return {
        "gpu": row.gpu,
        "pid": row.pid,
        "name": row.name,
        "user": row.user,
        "gpu_mem_bytes": row.gpu_mem_bytes,
        **dict(zip(PROCESS_METRICS, row.values, strict=True)),
    }
