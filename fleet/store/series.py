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

Levels: rows are kept as written for a time, and for longer as roll-ups of LEVELS seconds. A roll-up keeps of each metric, over
the samples that have it, what `series` answers with; a metric that none has is absent there too. Raw rows count as long as they
are there: a roll-up never hides what came late. An engine whose server does not roll up answers from what it has, and says so.
"""

from collections.abc import Collection, Mapping
from functools import cache
from typing import Final, Protocol

import polars as pl
from django.conf import settings

from wire.metrics import Scope

LEVELS: Final = (1, 10, 60, 3600)
"""Seconds of a row at each level; 1 is the rows as they were written."""

CODES: Final = 32
"""How many bits of a bitmask, or codes of a state from 0 on, a bucket's shares tell."""


def rounded(step_s: int) -> int:
    """The shortest step from `step_s` on that is made of whole rows of the coarsest level that is no longer than it."""
    step_s = max(step_s, 1)
    level = max(level for level in LEVELS if level <= step_s)
    return -(-step_s // level) * level


class StoreError(Exception):
    """The store could not do what was asked; the message says what, where and what to do."""


class TooOldError(ValueError):
    """Rows that the engine would not keep whenever they are written; no StoreError, for waiting does not help."""

    def __init__(self, message: str, before: float) -> None:
        super().__init__(message)
        self.before = before
        """Rows of an earlier second are those; the others may be written."""


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

    def series(
        self, scope: Scope, entity: int, metrics: Collection[str], start: int, end: int, step_s: int, *, full: bool = False
    ) -> pl.DataFrame:
        """One entity in buckets of `step_s`: `ts` (bucket start) and for each metric `<name>` (mean; counters: last),
        `<name>_min`, `<name>_max`. Buckets without a sample are left out: a gap is a gap.

        States and bitmasks give their last value too. Buckets begin at multiples of `step_s`; one whose samples lack
        the metric is null. Scope process: all processes on that GPU together.

        The coarsest level that divides `step_s`, or that it is four times as long as, answers; where rows of that level are gone or
        not made yet, the next that is there does. A row counts in the bucket that its `ts` lies in: where a level that does not
        divide `step_s` answers, buckets are right to one of its rows, and where a coarser one does, buckets between its rows are
        left out. The first and the last bucket may hold samples from beside `start` and `end`, where a roll-up reaches over them.

        `full` adds for each metric `<name>_n` (samples that have it, Int64), and by its kind
        - gauges and means: `<name>_p95` (Float64, linear between ranks); null where a bucket is made of several roll-ups, or of
          one of ten seconds: a percentile cannot be had from others
        - counters: `<name>_grown` (Float64), the growth from the bucket's first sample to its last, of which a fall is a new
          beginning from 0; growth from one bucket to the next is the caller's
        - states and bitmasks: `<name>_shares` (Array(Float64, CODES)), the share of samples with each bit set, or in each code
        """

    def latest(
        self, scope: Scope, since: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """The newest row of each entity (scope process: of each entity and pid) with ts >= since, the columns as `window`.

        It reads the keys of all rows since then: ask for minutes, not for days.
        """

    def prune(self, before: Mapping[int, int], most_bytes: int | None = None) -> int:
        """Drop of each level (a key of `before`, of LEVELS) the rows older than its second; the bytes that it freed.

        Whole days at a time, of coarse levels months: what is younger stays, what is older may stay that much
        longer. Raw rows whose roll-ups are not made yet stay until they are, but where a full disk has no room for
        them. Over `most_bytes` in all, the oldest raw hours go whatever their age, then the oldest of the finer roll-ups: that is logged and counted. An engine whose server keeps
        its own retention does what it can and answers 0.
        """


@cache
def store() -> Series:
    """The engine that settings.FETTLE_STORE names."""
    if settings.FETTLE_STORE == "parquet":
        from fleet.store.parquet import ParquetSeries

        return ParquetSeries(settings.FETTLE_STORE_DIR)
    if settings.FETTLE_STORE == "memory":
        from fleet.store.memory import MemorySeries

        return MemorySeries()
    if settings.FETTLE_STORE in ("victoriametrics", "prometheus-read"):
        from fleet.store.connect import connect

        return connect()
    raise StoreError(f"FETTLE_STORE={settings.FETTLE_STORE!r} is no engine; docs/reference/settings.md lists them.")
