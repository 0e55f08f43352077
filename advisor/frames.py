"""`Window`: what one judgement looks at, as Polars frames, and how a recording becomes one.

The server builds a Window from the store, `fettle advise` and `fettle run` from a recording; what follows cannot tell
them apart. Null is absent, never zero. A metric that a frame lacks counts as absent everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from wire.labels import MAX_LABEL, MAX_LABELS, is_label
from wire.metrics import Scope, of
from wire.recording import MAX_GPUS, Recording, RecordingError, Sample, readings

CONSTANTS: Final = (
    "mem_total_bytes",
    "power_limit_w",
    "power_limit_default_w",
    "sm_clock_max_mhz",
    "mem_clock_max_mhz",
    "pcie_link_gen_max",
    "pcie_link_width_max",
    "nvlink_links",
    "nvlink_bytes_per_s_per_link",
)
"""Columns of `Window.facts` that are constants of a card."""

_I64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Window:
    """The frames of one window.

    - `gpu`: `gpu` (integer key), `t` (seconds), and metrics of scope gpu
    - `host`: `node` (integer key), `t`, and metrics of scope host
    - `process`: `gpu`, `pid`, `t`, `gpu_mem_bytes`, and metrics of scope process; one row for each GPU that a process holds
    - `facts`: one row a GPU: `gpu`, `node`, `job` (text or null), `index` (the driver's number of the GPU), `name`, the
      CONSTANTS, `compute_capability`, `memory_kind` (`unified`: one with the host's),
      `power_scope` (`module`: its power limit is shared with a CPU), `mig` (it is or has MIG instances), and of its host `cores` and `host_mem_total_bytes`
    - `labels`: of a recording, what is known of its processes in words, by pid (keys of wire.labels); the server has its own
    - `blind`: the GPUs whose holders nobody could list: no row in `process` does not mean that nobody holds them
    """

    gpu: pl.DataFrame
    host: pl.DataFrame
    process: pl.DataFrame
    facts: pl.DataFrame
    blind: frozenset[int] = frozenset()
    labels: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


def from_recording(recording: Recording) -> Window:
    """The whole recording as a Window: node 0, GPUs by their index, all GPUs of its header one job named as the recording.

    RecordingError when a sample's GPU has no index or a number cannot be one.
    """
    gpu_rows: list[dict[str, Any]] = []
    host_rows: list[dict[str, Any]] = []
    process_rows: list[dict[str, Any]] = []
    for number, sample in enumerate(recording.samples):
        holds = _gpus(recording, number, sample, gpu_rows)
        _processes(recording, number, sample, holds, process_rows)
        host_rows.append({"node": 0, "t": sample.t, **_host(sample.host)})
    indices = sorted({gpu.index for gpu in recording.header.gpus} | {row["gpu"] for row in gpu_rows})
    constants = {gpu.index: gpu for gpu in recording.header.gpus}
    # What a bare header leaves out, the samples tell.
    sizes = {row["gpu"]: row.get("mem_total_bytes") for row in gpu_rows}
    cores = max((len(v) for s in recording.samples if isinstance(v := s.host.get("cpu_pct_per_core"), list)), default=0) or None
    facts = []
    for index in indices:
        card = constants.get(index)
        row: dict[str, Any] = {"gpu": index, "node": 0, "job": recording.name, "index": index}
        row["name"] = card.name if card else None
        row["compute_capability"] = card.compute_capability if card else None
        row["memory_kind"] = card.memory_kind if card else None
        row["power_scope"] = card.power_scope if card else None
        for name in CONSTANTS:
            row[name] = _positive(getattr(card, name, None))
        row["mem_total_bytes"] = row["mem_total_bytes"] or sizes.get(index)
        row["cores"] = _positive(recording.header.host.cores) or cores
        row["host_mem_total_bytes"] = _positive(recording.header.host.mem_total_bytes)
        facts.append(row)
    return Window(
        gpu=_frame(gpu_rows, "gpu", {"gpu": pl.Int64}),
        host=_frame(host_rows, "host", {"node": pl.Int64}),
        process=_frame(process_rows, "process", {"gpu": pl.Int64, "pid": pl.Int64}, {"gpu_mem_bytes": pl.Float64}),
        facts=pl.DataFrame(facts, schema=FACTS),
        labels=_labels(recording),
        blind=frozenset(indices) - {raw.get("index") for sample in recording.samples for raw in sample.gpus if "pids" in raw},
    )


FACTS: Final = {
    "gpu": pl.Int64,
    "node": pl.Int64,
    "job": pl.String,
    "index": pl.Int64,
    "name": pl.String,
    "compute_capability": pl.String,
    "memory_kind": pl.String,
    "power_scope": pl.String,
    "mig": pl.Boolean,
    **dict.fromkeys(CONSTANTS, pl.Float64),
    "cores": pl.Float64,
    "host_mem_total_bytes": pl.Float64,
}
"""Columns and types of `Window.facts`."""


def _gpus(
    recording: Recording, number: int, sample: Sample, rows: list[dict[str, Any]]
) -> dict[int, list[tuple[int, float | None]]]:
    """Append a row for each GPU of `sample`; who holds what, as pid to (GPU, bytes)."""
    holds: dict[int, list[tuple[int, float | None]]] = {}
    seen: set[int] = set()
    for raw in sample.gpus:
        index = raw.get("index")
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < MAX_GPUS:
            raise _bad(recording, number, f"a GPU's index is {_shown(index)}; a whole number from 0 belongs there")
        if index in seen:
            raise _bad(recording, number, f"GPU {index} occurs twice")
        seen.add(index)
        values, _ = readings("gpu", raw)
        rows.append({"gpu": index, "t": sample.t, **values})
        pids = raw.get("pids") or {}
        if not isinstance(pids, dict):
            raise _bad(recording, number, f"the pids of GPU {index} are {_shown(pids)}; a map of pid to bytes belongs there")
        for key, held in pids.items():
            pid = _pid(recording, number, key)
            good = not isinstance(held, bool) and isinstance(held, int | float) and 0 <= held < 1 << 50
            holds.setdefault(pid, []).append((index, float(held) if good else None))
    return holds


def _processes(
    recording: Recording,
    number: int,
    sample: Sample,
    holds: dict[int, list[tuple[int, float | None]]],
    rows: list[dict[str, Any]],
) -> None:
    """Append a row for each process and GPU it holds; a holder of which nothing else is known has nulls."""
    known: dict[int, dict[str, int | float]] = {}
    for raw in sample.processes:
        if "pid" not in raw:
            raise _bad(recording, number, "a process has no pid")
        known[_pid(recording, number, raw["pid"])] = readings("process", raw)[0]
    for pid, held in holds.items():
        for index, size in held:
            rows.append({"gpu": index, "pid": pid, "t": sample.t, "gpu_mem_bytes": size, **known.get(pid, {})})


def _labels(recording: Recording) -> dict[int, dict[str, str]]:
    """The newest labels of each process; what cannot be one is left out."""
    found: dict[int, dict[str, str]] = {}
    for number, sample in enumerate(recording.samples):
        for raw in sample.processes:
            told = raw.get("labels")
            if isinstance(told, dict):
                good = {
                    key: value
                    for key, value in told.items()
                    if is_label(key) and isinstance(value, str) and len(value) <= MAX_LABEL
                }
                found[_pid(recording, number, raw.get("pid"))] = dict(list(good.items())[:MAX_LABELS])
    return found


def _host(raw: dict[str, Any]) -> dict[str, int | float]:
    values, _ = readings("host", raw)
    per_core = raw.get("cpu_pct_per_core")
    if isinstance(per_core, list):
        busy = [c for c in per_core if not isinstance(c, bool) and isinstance(c, int | float) and 0 <= c <= 100]
        if busy:
            values.setdefault("cpu_busy_cores", sum(busy) / 100)
            values.setdefault("cpu_core_max_pct", max(busy))
    return values


def _pid(recording: Recording, number: int, raw: object) -> int:
    try:
        pid = int(raw) if isinstance(raw, int | str) and not isinstance(raw, bool) else -1
    except ValueError:
        pid = -1
    if not 0 <= pid <= _I64_MAX:
        raise _bad(recording, number, f"a pid is {_shown(raw)}; a whole number belongs there")
    return pid


def _positive(value: float | None) -> float | None:
    """`value` where it can be a constant of a card or host, else None."""
    return float(value) if value is not None and 0 < value < 1e18 else None


def _frame(rows: list[dict[str, Any]], scope: Scope, keys: dict[str, Any], more: dict[str, Any] | None = None) -> pl.DataFrame:
    metrics = {metric.name: pl.Float64 for metric in of(scope) if metric.kind != "vector"}
    schema = {**keys, "t": pl.Float64, **(more or {}), **metrics}
    return pl.DataFrame(rows, schema=schema, strict=False)


def _bad(recording: Recording, number: int, what: str) -> RecordingError:
    return RecordingError(f"{recording.place(number)}: {what}.")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
