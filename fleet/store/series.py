"""The store's five calls; all that others may use of it.

Frames are Polars data frames. Their key columns, all integers:

- scope `gpu`: `entity` (Gpu.id), `ts`
- scope `host`: `entity` (Node.id), `ts`
- scope `process`: `entity` (Gpu.id of the GPU held), `pid`, `ts`, and beside the metrics `gpu_mem_bytes`
  and the text columns `name` and `user`
- scope `engine`: `entity` (Engine.id), `ts`

`ts` is UTC epoch seconds (whole). Every other column is a metric of that scope in wire.metrics; null is absent.
One row for each key: of rows written twice the later one counts, as a whole.
A whole number is Int64, any other Float64, also in an empty frame. A value comes back as it was written up to the step
that it is kept in: ratios 1/10,000, percentages and cores 1/100, degrees and megahertz 1/10, watts and joules 1/1,000,
rates seven digits. What does not fit its column (NaN, infinities, far out of range) is stored as absent and counted.
An engine may be used from several threads. All calls raise StoreError for an unknown scope or metric.
"""

from collections.abc import Collection
from functools import cache
from typing import Protocol

import polars as pl
from django.conf import settings

from wire.metrics import Scope


class StoreError(Exception):
    """The store could not do what was asked; the message says what, where and what to do."""


class Series(Protocol):
    """What an engine offers."""

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        """Make rows durable; returns only when they would survive a kill. StoreError when the disk refuses."""

    def window(
        self, scope: Scope, start: int, end: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """Raw rows with start <= ts < end, ordered by key. A metric nobody wrote is a column of nulls.

        `metrics` names the columns wanted beside the key (scope process: `name`, `user` and `gpu_mem_bytes` too); None is all.
        """

    def series(self, scope: Scope, entity: int, metrics: Collection[str], start: int, end: int, step_s: int) -> pl.DataFrame:
        """One entity in buckets of `step_s`: `ts` (bucket start) and for each metric `<name>` (mean; counters: last),
        `<name>_min`, `<name>_max`. Buckets without a sample are left out: a gap is a gap.

        States and bitmasks give their last value too. Buckets begin at multiples of `step_s`; one whose samples lack
        the metric is null. Scope process: all processes on that GPU together.
        """

    def latest(self, scope: Scope, since: int, entities: Collection[int] | None = None) -> pl.DataFrame:
        """The newest row of each entity (scope process: of each entity and pid) with ts >= since.

        It reads the keys of all rows since then: ask for minutes, not for days.
        """

    def prune(self, before: int) -> int:
        """Drop raw rows older than `before` (whole days at a time); the bytes that it freed."""


@cache
def store() -> Series:
    """The engine that settings.FETTLE_STORE names."""
    if settings.FETTLE_STORE == "parquet":
        from fleet.store.parquet import ParquetSeries

        return ParquetSeries(settings.FETTLE_STORE_DIR)
    if settings.FETTLE_STORE == "memory":
        from fleet.store.memory import MemorySeries

        return MemorySeries()
    raise StoreError(f"FETTLE_STORE={settings.FETTLE_STORE!r} is no engine; use parquet or memory.")
