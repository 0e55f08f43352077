"""A store that holds a recording as if a node had just reported it."""

from pathlib import Path
from typing import Any

import polars as pl

from fleet.inventory.models import Gpu
from fleet.store.series import store
from wire.metrics import Scope, sent
from wire.recording import Recording, read, readings

RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"


def recording(name: str) -> Recording:
    """The recording of that name."""
    return read(RECORDINGS / f"{name}.jsonl.gz")


def fill(name: str, gpus: list[Gpu], end: int, samples: int = 60, *, processes: bool = True) -> None:
    """Write the recording's last samples, one a second, up to `end`; GPU i of the recording is `gpus[i]`."""
    by_index = dict(enumerate(gpus))
    rows: dict[Scope, list[dict[str, Any]]] = {"gpu": [], "host": [], "process": []}
    kept = recording(name).samples[-samples:]
    for ts, sample in enumerate(kept, start=end - len(kept)):
        known = {raw["pid"]: readings("process", raw)[0] for raw in sample.processes}
        host, _ = readings("host", sample.host)
        cores = [one for one in sample.host.get("cpu_pct_per_core", []) if one is not None]
        host |= {"cpu_busy_cores": sum(cores) / 100, "cpu_core_max_pct": max(cores, default=0)}
        rows["host"].append({"entity": gpus[0].node_id, "ts": ts, **host})
        for raw in sample.gpus:
            gpu = by_index[raw["index"]]
            rows["gpu"].append({"entity": gpu.pk, "ts": ts, **readings("gpu", raw)[0]})
            for pid, held in (raw.get("pids") or {}).items() if processes else ():
                who = {"pid": int(pid), "name": name, "user": "demo", "gpu_mem_bytes": held}
                rows["process"].append({"entity": gpu.pk, "ts": ts, **who, **known.get(int(pid), {})})
    for scope, lines in rows.items():
        if lines:
            names = {metric.name for metric in sent(scope)} | {"entity", "ts", "pid", "name", "user", "gpu_mem_bytes"}
            frame = pl.DataFrame(lines, infer_schema_length=None)
            store().write(scope, frame.select(column for column in frame.columns if column in names))
