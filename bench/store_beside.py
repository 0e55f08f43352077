"""The same samples in the Parquet store, in VictoriaMetrics and in Prometheus: what writing costs, what is kept, how reads answer.

Called by `bench/store.py --beside`. Debian's servers run on loopback with their defaults but for retention; CPU is that of this process and of
the server with all its threads, work that a server puts off included: each is left alone until it has flushed. Prometheus gets
the very bytes that VictoriaMetrics gets, and is asked by PromQL as our engine for it would ask.
"""

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import polars as pl
import psutil

from fleet.store import promql, remote_write
from fleet.store.columns import tables
from fleet.store.compact import compact
from fleet.store.endpoint import Access, Endpoint
from fleet.store.parquet import ParquetSeries
from fleet.store.series import Series, StoreError
from fleet.store.victoria import VictoriaSeries
from fleet.store.victoria_durable import Watch
from fleet.store.victoria_rows import fields
from tests.serving import free_port

JOB = ("sm_active", "power_w")
GPU = ("sm_active", "power_w", "energy_j_total")
QUANTILES = (0.05, 0.5, 0.95)


class Store(Protocol):
    """One engine of the comparison; reads end at `end`."""

    name: str
    process: psutil.Process | None

    def write(self, frame: pl.DataFrame) -> None:
        """Take ten seconds of the fleet."""

    def settle(self, end: int) -> int:
        """Wait until nothing is put off any more; bytes on disk."""

    def one_gpu_hour(self, gpu: int, end: int) -> object:
        """Q1: three metrics of one GPU in steps of ten seconds."""

    def job_hour(self, gpus: list[int], end: int) -> object:
        """Q2: quantiles over all seconds and GPUs of a job together."""

    def fleet_5_minutes(self, end: int) -> object:
        """Q3: mean and 95th percentile of every metric of every GPU."""

    def latest(self, end: int) -> object:
        """Q4: the newest row of every GPU."""


class Ours:
    """The reads of an engine of ours."""

    series: Series

    def one_gpu_hour(self, gpu: int, end: int) -> object:
        """By `series`."""
        return self.series.series("gpu", gpu, GPU, end - 3600, end, 10)

    def job_hour(self, gpus: list[int], end: int) -> object:
        """By `window`, quantiles here."""
        rows = self.series.window("gpu", end - 3600, end, gpus, JOB)
        return rows.select(pl.col(name).quantile(q).alias(f"{name}{q}") for name in JOB for q in QUANTILES)

    def fleet_5_minutes(self, end: int) -> object:
        """By `window`, statistics here."""
        rows = self.series.window("gpu", end - 300, end)
        values = pl.exclude("entity", "ts")
        return rows.group_by("entity").agg(values.mean().name.suffix("_mean"), values.quantile(0.95).name.suffix("_p95"))

    def latest(self, end: int) -> object:
        """By `latest`."""
        return self.series.latest("gpu", end - 60)


class Parquet(Ours):
    """Files, merged as the compactor would at the end."""

    name = "parquet"
    process: psutil.Process | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = 0.0
        self.series: ParquetSeries = ParquetSeries(folder, clock=lambda: self.now, grace_s=0)

    def write(self, frame: pl.DataFrame) -> None:
        self.now = float(frame["ts"].max())  # type: ignore[arg-type] # whole seconds
        self.series.write("gpu", frame)

    def settle(self, end: int) -> int:
        for later in (300, 7200, 7200):
            compact(self.series, end + later)
        return _size(self.folder)


class Server(AbstractContextManager[None]):
    """A program on loopback, ended at the end of the block."""

    def __init__(self, command: list[str], url: str, health: str) -> None:
        self._popen = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process = psutil.Process(self._popen.pid)
        server = Endpoint(url, Access(), command[0])
        for _ in range(300):
            with suppress(StoreError):
                server.get(health)
                return
            time.sleep(0.1)
        raise RuntimeError(f"{command[0]} does not start")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._popen.terminate()
        self._popen.wait(60)


class Victoria(Ours):
    """Our engine on Debian's VictoriaMetrics."""

    name = "victoria-metrics"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        command = ["victoria-metrics", f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=100y"]
        self.server = Server(command, url, "/health")
        self.process: psutil.Process | None = self.server.process
        self.url = Endpoint(url, Access(read_s=300), "VictoriaMetrics")
        watch = Watch([Endpoint(url + "/metrics", Access(), "VictoriaMetrics")])
        self.series: VictoriaSeries = VictoriaSeries(self.url, self.url, watch, clock=lambda: self.now)
        self.now = 0.0

    def write(self, frame: pl.DataFrame) -> None:
        self.now = float(frame["ts"].max())  # type: ignore[arg-type] # whole seconds
        self.series.send({"gpu": frame})

    def settle(self, end: int) -> int:
        time.sleep(13)
        self.url.get("/internal/force_merge")
        _wait_until_idle(self.server.process)
        return _size(self.folder / "data") + _size(self.folder / "indexdb")


class Prometheus:
    """Debian's Prometheus with its receiver of remote write, asked by PromQL."""

    name = "prometheus"

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        config = folder / "prometheus.yml"
        config.write_text("global: {}\n")
        command = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
            "--web.enable-remote-write-receiver", "--web.enable-admin-api", "--storage.tsdb.retention.time=100y",
        ]  # fmt: skip
        self.server = Server(command, url, "/-/ready")
        self.process: psutil.Process | None = self.server.process
        self.url = Endpoint(url, Access(read_s=300), "Prometheus")
        self.table = tables()["gpu"]
        self.told: list[str] = []

    def write(self, frame: pl.DataFrame) -> None:
        packed, _ = self.table.pack(frame)
        rows = self.table.unpack(packed)
        self.told = [name for name in rows.columns if name not in self.table.keys]
        versions = pl.Series([0] * len(rows), dtype=pl.Int64)
        for body in remote_write.requests(fields(self.table, rows, versions, "fettle", {})):
            self.url.send("/api/v1/write", body, remote_write.HEADERS)

    def settle(self, end: int) -> int:
        time.sleep(5)
        self.url.ask("/api/v1/admin/tsdb/snapshot", {})
        return _size(self.folder / "data" / "snapshots")

    def one_gpu_hour(self, gpu: int, end: int) -> object:
        """Means by the server."""
        queries = (f'avg_over_time(fettle_gpu_{name}{{entity="{gpu}"}}[10s])' for name in GPU)
        return [promql.over(self.url, query, end - 3590, end, 10) for query in queries]

    def job_hour(self, gpus: list[int], end: int) -> object:
        """No quantile of PromQL runs over series and time at once: raw samples, quantiles here."""
        some = "|".join(str(gpu) for gpu in gpus)
        found = [promql.points(self._raw(f'fettle_gpu_{name}{{entity=~"{some}"}}[1h]', end)) for name in JOB]
        return [frame.select(pl.col("value").quantile(q).alias(str(q)) for q in QUANTILES) for frame in found]

    def fleet_5_minutes(self, end: int) -> object:
        """By the server."""
        ranges = [f"fettle_gpu_{name}[5m]" for name in self.told]
        queries = [f"avg_over_time({of})" for of in ranges] + [f"quantile_over_time(0.95, {of})" for of in ranges]
        return [self._raw(query, end) for query in queries]

    def latest(self, end: int) -> object:
        """By the server."""
        return self._raw('{__name__=~"fettle_gpu_.+"}', end)

    def _raw(self, query: str, end: int) -> list[promql.Result]:
        return promql.instant(self.url, query, end - 0.001)


def beside(folder: Path, groups: Iterable[pl.DataFrame], gpus: int, samples: int, repeats: int, end: int) -> dict[str, Any]:
    """What each engine costs, by its name; one line of text for each figure."""
    makers: dict[str, Callable[[Path], Store]] = {"parquet": Parquet}
    for name, maker in (("victoria-metrics", Victoria), ("prometheus", Prometheus)):
        if shutil.which(name):
            makers[name] = maker
        else:
            print(f"{name} is not installed and is left out")
    stores = [maker(folder / name) for name, maker in makers.items()]
    try:
        cpu = dict.fromkeys(makers, 0.0)
        for group in groups:  # in turns, so that all meet the same machine
            for store in stores:
                before = _cpu(store)
                store.write(group)
                cpu[store.name] += _cpu(store) - before
        return {store.name: _told(store, cpu[store.name], gpus, samples, repeats, end) for store in stores}
    finally:
        for store in stores:
            if isinstance(store, Victoria | Prometheus):
                store.server.__exit__(None, None, None)


def _told(store: Store, cpu_s: float, gpus: int, samples: int, repeats: int, end: int) -> dict[str, Any]:
    before = _cpu(store)
    size = store.settle(end)
    later = _cpu(store) - before
    job = list(range(1, min(64, gpus) + 1))
    queries: dict[str, Callable[[], object]] = {
        "one_gpu_hour": lambda: store.one_gpu_hour(gpus // 2 + 1, end),
        "job_of_64_hour": lambda: store.job_hour(job, end),
        "fleet_5_minutes": lambda: store.fleet_5_minutes(end),
        "latest_of_all": lambda: store.latest(end),
    }
    million = samples / 1e6
    told: dict[str, Any] = {
        "write_cpu_s_per_million": round(cpu_s / million, 2),
        "later_cpu_s_per_million": round(later / million, 2),
        "bytes_per_sample": round(size / samples, 1),
    }
    for name, query in queries.items():
        walls, began = [], _cpu(store)
        for _ in range(repeats):
            wall = time.perf_counter()
            query()
            walls.append(time.perf_counter() - wall)
        told[f"{name}_ms"] = round(statistics.median(walls) * 1000, 1)
        told[f"{name}_cpu_ms"] = round((_cpu(store) - began) / repeats * 1000, 1)
    for name, value in told.items():
        print(f"{store.name:18} {name:28} {value:10}")
    return told


def _cpu(store: Store) -> float:
    """CPU seconds of this process and of the store's server so far."""
    own = time.process_time()
    if store.process is None:
        return own
    times = store.process.cpu_times()
    return own + float(times.user + times.system)


def _wait_until_idle(process: psutil.Process) -> None:
    """Return once it takes less than a tenth of a core."""
    for _ in range(60):
        if process.cpu_percent(1.0) < 10:
            return


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not os.path.islink(file))
