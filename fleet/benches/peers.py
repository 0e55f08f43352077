"""How a GPU's scores compare with those of other GPUs of its model, measured in the same way.

Compared are the newest scores of one name, protocol (full or quick), GPU model and power limit. A GPU is judged by products in
bf16 and fp16, its memory and large all-reduces: copies to the host depend on the host, and 1 MiB over all GPUs on latencies.
"""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

import polars as pl
from django.db.models import Count, Exists, F, Max, Min, OuterRef, Window
from django.db.models.functions import RowNumber

from fleet.benches.models import BenchRun, BenchScore
from fleet.inventory.models import Gpu

FRESH: Final = timedelta(days=14)
"""Older scores say nothing of today."""
SLOW_RATIO: Final = 0.93
"""Of the peers' median; at or below it a run is slow (rule gpu-slow-outlier)."""
LAST_RUNS: Final = 3
FEWEST_GPUS: Final = 4
"""With the GPU itself: of three, one that is slow moves the median too far to tell."""
PAGE_RUNS: Final = 24
"""A page compares with the GPUs of so many newest runs, not with the whole fleet."""
DEAR_S: Final = 0.5
KEPT_TIMES: Final = 150
"""A comparison that took more CPU than DEAR_S is kept for so many times as long: that of 10,000 GPUs, 2 s, for 5 minutes."""
_JUDGED: Final = ("matmul_bf16_", "matmul_fp16_", "memory_", "all_reduce_64mib_", "all_reduce_1gib_")
_COLUMNS: Final = {
    "gpu": pl.Int64, "model": pl.String, "name": pl.String, "protocol": pl.String, "limit_w": pl.Float64,
    "value": pl.Float64, "at": pl.Float64, "turn": pl.Int64,
}  # fmt: skip
FEATURES: Final = {
    "gpu": pl.Int64, "bench_ratio": pl.Float64, "bench_slow_runs": pl.Int64, "bench_runs": pl.Int64,
    "bench_name": pl.String, "bench_age_s": pl.Float64,
}  # fmt: skip
"""Columns of `bench_features`."""


def is_judged(name: str) -> bool:
    """True for the tests by which a GPU is compared with its peers."""
    return name.startswith(_JUDGED)


def bench_features(at: datetime) -> pl.DataFrame:
    """A row for each GPU that has fresh scores and enough peers, of its worst test: FEATURES.

    `bench_ratio`: its newest score over the median of its peers' newest. `bench_slow_runs`: in how many of its last runs
    (`bench_runs`, three at most) that was SLOW_RATIO or less. `bench_age_s`: how long before `at` the newest began.
    One query for the whole fleet, and another one only after a run came or went.
    """
    found = _compared.of(at - FRESH)
    return found.with_columns(bench_age_s=at.timestamp() - pl.col("newest_at")).select(list(FEATURES))


class _Compared:
    """The comparison as it was made last, and of which rows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: object = None
        self._until = 0.0
        self._found = pl.DataFrame()

    def of(self, since: datetime) -> pl.DataFrame:
        """That of the runs since then; made anew where a run came or went, or a quarter of an hour of old ones has.

        One of a large fleet is kept for a while even so: there, a run comes every minute.
        """
        rows = BenchRun.objects.aggregate(count=Count("pk"), first=Min("pk"), last=Max("pk"), newest=Max("received_at"))
        key = (*rows.values(), int(since.timestamp() // 900))
        with self._lock:
            if key != self._key and time.monotonic() >= self._until:
                began = time.thread_time()
                self._found, self._key = compared(newest(since)), key
                took = time.thread_time() - began
                self._until = time.monotonic() + (took * KEPT_TIMES if took > DEAR_S else 0.0)
            return self._found


_compared = _Compared()


def newest(since: datetime) -> pl.DataFrame:
    """The last scores of every GPU and judged test since then, LAST_RUNS at most; `turn` 1 is the newest."""
    rows = (
        BenchScore.objects.filter(judged=True, run__at__gte=since, gpu__present=True)
        .order_by()
        .annotate(turn=Window(RowNumber(), [F("gpu_id"), F("name"), F("run__protocol")], [F("run__at").desc(), F("pk").desc()]))
        .filter(turn__lte=LAST_RUNS)
        .values_list("gpu_id", "gpu__model", "name", "run__protocol", "power_limit_w", "value", "run__at", "turn")
    )
    return pl.DataFrame([(*row[:6], row[6].timestamp(), row[7]) for row in rows.iterator(10_000)], schema=_COLUMNS, orient="row")


def compared(scores: pl.DataFrame) -> pl.DataFrame:
    """FEATURES but for the age, with `newest_at` in its place, from what `newest` gives."""
    alike = [pl.col("model"), pl.col("name"), pl.col("protocol"), pl.col("limit_w").round()]
    told = scores.with_columns(
        median=pl.col("value").filter(pl.col("turn") == 1).median().over(alike),
        gpus=pl.col("gpu").filter(pl.col("turn") == 1).n_unique().over(alike),
    ).filter(pl.col("gpus") >= FEWEST_GPUS)
    ratio = pl.col("value") / pl.col("median")
    each = (
        told.sort("turn")
        .group_by("gpu", "name", "protocol", maintain_order=True)
        .agg(
            bench_ratio=ratio.first(),
            bench_slow_runs=(ratio <= SLOW_RATIO).sum().cast(pl.Int64),
            bench_runs=pl.len().cast(pl.Int64),
            newest_at=pl.col("at").first(),
            starts=pl.col("turn").first(),
        )
        .filter(pl.col("starts") == 1)
        .with_columns(again=pl.col("bench_slow_runs") >= 2)
    )
    worst = (
        each.sort(["again", "bench_ratio", "name"], descending=[True, False, False]).group_by("gpu", maintain_order=True).first()
    )
    return worst.rename({"name": "bench_name"}).select(*(name for name in FEATURES if name != "bench_age_s"), "newest_at")


@dataclass(frozen=True, slots=True)
class Compared:
    """The newest score of one test of a GPU. `share`: of the median of `peers` other GPUs; None: there are none."""

    score: BenchScore
    median: float | None
    share: float | None
    peers: int


def of_gpu(gpu: Gpu, at: datetime) -> list[Compared]:
    """The newest score of every test of one GPU, with its peers' median among the newest runs; three queries at most."""
    own: dict[tuple[str, str], BenchScore] = {}
    for score in gpu.bench_scores.select_related("run").order_by("-run__at", "id")[:500]:
        own.setdefault((score.name, score.run.protocol), score)
    if not own:
        return []
    runs = list(
        BenchRun.objects.filter(Exists(BenchScore.objects.filter(run=OuterRef("pk"), gpu__model=gpu.model)))
        .filter(at__gte=at - FRESH, shared=False)
        .order_by("-at", "-id")
        .values_list("pk", flat=True)[:PAGE_RUNS]
    )
    others: dict[tuple[str, str, Any], dict[int, float]] = {}
    rows: Iterable[Any] = (
        BenchScore.objects.filter(run__in=runs, gpu__model=gpu.model)
        .exclude(gpu=gpu)
        .order_by("-run__at", "-id")
        .values_list("name", "run__protocol", "power_limit_w", "gpu_id", "value")
    )
    for name, protocol, limit_w, pk, value in rows:
        others.setdefault((name, protocol, _whole(limit_w)), {}).setdefault(pk, value)
    return [
        _against(score, others.get((name, protocol, _whole(score.power_limit_w)), {})) for (name, protocol), score in own.items()
    ]


def _whole(limit_w: float | None) -> int | None:
    return None if limit_w is None else round(limit_w)


def _against(score: BenchScore, others: dict[int, float]) -> Compared:
    if not others:
        return Compared(score, None, None, 0)
    middle = median(others.values())
    return Compared(score, middle, score.value / middle, len(others))
