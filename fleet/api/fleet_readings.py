"""What the whole fleet measures now, by model: sums, and how the newest readings are distributed; no series of a single GPU.

A reading that is older than STALE_AFTER is in none of them: a GPU that is silent is neither idle nor cold.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import polars as pl
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily, Metric

from fleet.inventory.models import STALE_AFTER, Gpu
from fleet.store import clock
from fleet.store.damage import damaged_files
from fleet.store.series import StoreError
from wire import metrics

MODELS: Final = 20
"""So many models have a name of their own, those with the most GPUs; the others are `other` together. Agents write the name."""
OTHER: Final = "other"
CACHED_S: Final = 5.0
"""Several scrapers at once cost one read."""

_PERCENT: Final = (1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0)
_RATIO: Final = tuple(bound / 100 for bound in _PERCENT)
BOUNDS: Final[Mapping[str, tuple[float, ...]]] = {
    "gpu_util_pct": _PERCENT,
    "sm_active": _RATIO,
    "tensor_active": _RATIO,
    "dram_active": _RATIO,
    "power_w": (50.0, 100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 1000.0, 1200.0),
    "temperature_c": (30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 95.0),
}
"""Upper bounds of the buckets, inclusive, of each metric that is told as a distribution."""
SUMS: Final = ("mem_used_bytes", "mem_total_bytes", "power_limit_w")
"""Metrics that are told as sums; the sum of one above is its `_gsum`."""


class FleetReadings:
    """The families, from one read of the store that is kept for CACHED_S."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._kept: tuple[float, list[Metric]] | None = None

    def collect(self) -> Iterator[Metric]:
        """The families; none but `fettle_store_readable` when the store cannot be read."""
        with self._lock:
            now = self._monotonic()
            if self._kept is None or now - self._kept[0] > CACHED_S:
                self._kept = (now, list(_families()))
            yield from self._kept[1]

    def forget(self) -> None:
        """Read anew when asked next."""
        self._kept = None


def names(models: Iterable[str]) -> dict[str, str]:
    """Each model's label: its own name for the MODELS most frequent ones, else OTHER. Of as many, the first by name."""
    counts = Counter(models)
    most = sorted(counts, key=lambda model: (-counts[model], model))[:MODELS]
    return {model: model if model in most else OTHER for model in counts}


def _families() -> Iterator[Metric]:
    readable = GaugeMetricFamily("fettle_store_readable", "1 when the telemetry of now could be read, else 0.")
    damaged = GaugeMetricFamily(
        "fettle_store_damaged_files", "Telemetry files that cannot be read: their rows are missing, all else goes on."
    )
    try:
        since = int(time.time() - STALE_AFTER.total_seconds())
        frame = clock.latest("gpu", since, None, [*BOUNDS, *SUMS])
        if (files := damaged_files()) is not None:
            damaged.add_metric([], files)
    except StoreError:
        readable.add_metric([], 0)
        yield readable
        return
    readable.add_metric([], 1)
    yield from (readable, damaged)
    models = dict(Gpu.objects.filter(present=True).values_list("pk", "model"))
    label = names(models.values())
    frame = frame.filter(pl.col("entity").is_in(list(models)))
    of = pl.Series("model", [label[models[entity]] for entity in frame["entity"]], dtype=pl.String)
    parts = {str(key[0]): part for key, part in frame.with_columns(of).partition_by("model", as_dict=True).items()}
    for name, bounds in BOUNDS.items():
        yield _distribution(name, bounds, parts)
    for name in SUMS:
        family = GaugeMetricFamily(f"fettle_fleet_{name}", f"Sum over the GPUs that report: {_help(name)}", labels=["model"])
        for model, part in sorted(parts.items()):
            if part[name].null_count() < part.height:
                family.add_metric([model], float(part[name].sum()))
        yield family


def _distribution(name: str, bounds: tuple[float, ...], parts: Mapping[str, pl.DataFrame]) -> Metric:
    family = GaugeHistogramMetricFamily(
        f"fettle_fleet_{name}", f"GPUs that report, by their newest reading: {_help(name)}", labels=["model"]
    )
    for model, part in sorted(parts.items()):
        values = np.sort(part[name].drop_nulls().to_numpy())
        if len(values):
            below = np.searchsorted(values, bounds, side="right").tolist()
            buckets = [(f"{bound:g}", float(count)) for bound, count in zip(bounds, below, strict=True)]
            family.add_metric([model], [*buckets, ("+Inf", float(len(values)))], float(values.sum()))
    return family


def _help(name: str) -> str:
    return metrics.BY_KEY[f"gpu.{name}"].help
