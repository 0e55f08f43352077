"""The scale-out engine: VictoriaMetrics, written by remote write and read by its export and query API.

docs/decisions/0010-victoriametrics.md says why it lies as it does; victoria_rows.py has the layout. Several processes may
write: what two of them wrote for one key is one row, or the later one.
"""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

import polars as pl

from fleet.store import promql, remote_write, victoria_buckets
from fleet.store.buckets import buckets, by_days, check
from fleet.store.columns import MAX_KEY, Table, tables
from fleet.store.deferred import Pending
from fleet.store.endpoint import Endpoint
from fleet.store.series import StoreError, TooOldError
from fleet.store.victoria_durable import Watch
from fleet.store.victoria_export import exported, rows
from fleet.store.victoria_rows import ROW, VERSIONS, fields, selectors
from wire.metrics import METRICS, Metric, Scope

logger = logging.getLogger(__name__)
HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S
RAW_S: Final = 48 * HOUR_S
"""Of a longer span the server makes the buckets."""
TOGETHER_S: Final = 30
"""Entities that were last seen within so much of each other are read together."""
WIDE: Final = 5_000
"""Of more entities than these all are read and the others left out here: a longer selector costs more than that."""
EXPORT_BYTES: Final = 16 << 30
"""Of one export. A sample is some twenty bytes of text: five minutes of 30 metrics of 80,000 GPUs, and no machine that runs us holds more."""
AHEAD_S: Final = 120
"""Nodes' clocks may be ahead of ours by less."""
FIRST_VERSIONS: Final = 900
"""A process writes its rows at one of these, so that two processes that write one row with different contents mix no values."""
Labels = Callable[[Scope, Collection[int]], Mapping[int, Mapping[str, str]]]


class VictoriaSeries:
    """The five calls on a VictoriaMetrics. Threads may share it; making one connects to nothing."""

    def __init__(
        self,
        write: Endpoint,
        read: Endpoint,
        watch: Watch,
        fleet: str = "fettle",
        labels: Labels = lambda scope, entities: {},
        metrics: Iterable[Metric] = METRICS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.tables = tables(metrics)
        self.keeps_s: float | None = None  # what the server said last of its -retentionPeriod
        self.misfits = 0  # values that did not fit their column and were stored as absent
        self._write, self._read, self._watch = write, read, watch
        self._fleet = fleet
        self._labels = labels
        self._clock = clock
        self._first = random.randrange(FIRST_VERSIONS)  # noqa: S311 - no secret
        self._lock = threading.Lock()
        self._newest: dict[Scope, dict[int, int]] = {scope: {} for scope in self.tables}

    # The five calls

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        """As Series.write. It takes as long as VictoriaMetrics keeps samples in memory; `send` lets others go on meanwhile."""
        if (pending := self.send({scope: frame})) is not None:
            self._watch.wait(pending)

    def send(self, frames: Mapping[Scope, pl.DataFrame]) -> Pending | None:
        """As Deferring.send."""
        packed = {scope: self._packed(scope, frame) for scope, frame in frames.items()}
        if all(rows.is_empty() for rows in packed.values()):
            return None
        before = self._watch.look()
        self.keeps_s = min((page.keeps_s for page in before if page.keeps_s is not None), default=None)
        self._refuse_old(packed)
        doubtful = {scope: self._doubtful(scope, some) for scope, some in packed.items() if not some.is_empty()}
        if any(some.any() for some in doubtful.values()):
            self._watch.show()
        for scope, some in doubtful.items():
            self._send(self.table(scope), packed[scope], some)
        return self._watch.pending(before)

    def window(
        self, scope: Scope, start: int, end: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.window."""
        table = self.table(scope)
        return table.unpack(self._rows(table, start, end, entities, table.names(metrics))[0])

    def series(
        self, scope: Scope, entity: int, metrics: Collection[str], start: int, end: int, step_s: int, *, full: bool = False
    ) -> pl.DataFrame:
        """As Series.series, from the rows a day at a time; of more than RAW_S the server makes the buckets, unless they are `full`.

        The server counts a row that was written anew with another content twice.
        """
        table = self.table(scope)
        names = check(table, metrics, step_s)
        start, end = max(start, 0), min(end, MAX_KEY + 1)
        if end - start > RAW_S and not full:
            return victoria_buckets.buckets(self._read, self._fleet, table, entity, names, start, end, step_s)
        return by_days(
            start,
            end,
            step_s,
            lambda low, high: buckets(table, self.window(scope, low, high, [entity], names), names, step_s, full=full),
        )

    def latest(
        self, scope: Scope, since: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.latest: when each was seen last by one query, then only the seconds with the answers."""
        table = self.table(scope)
        names = table.names(metrics)
        seen = self._seen(table, max(since, DAY_S), entities)  # a look back past 1970 finds nothing
        groups, parts = _together(seen), []
        for group in groups:
            wanted = None if entities is None and len(groups) == 1 else group["entity"].unique().to_list()
            low, high = int(group["ts"].min()), int(group["ts"].max())  # type: ignore[arg-type] # whole numbers
            found = table.unpack(self._rows(table, low, high + 1, wanted, names)[0])
            parts.append(found.join(group, on=list(table.keys), how="semi", maintain_order="left"))
        return pl.concat(parts).sort(table.keys) if parts else table.empty(names)

    def prune(self, before: Mapping[int, int], most_bytes: int | None = None) -> int:
        """0: VictoriaMetrics drops what is older than its own -retentionPeriod, and nothing less than a whole series when asked."""
        return 0

    def ready(self) -> None:
        """Return when it answers; StoreError says why it cannot be used."""
        self._watch.look()
        promql.instant(self._read, "vector(1)", self._clock())

    def forget(self, scope: Scope, entities: Iterable[int]) -> None:
        """Ask the server again before the next rows of these are written: another process wrote some meanwhile."""
        with self._lock:
            for entity in entities:
                self._newest[scope].pop(entity, None)

    def table(self, scope: Scope) -> Table:
        """The scope's columns; StoreError when there is no such scope."""
        try:
            return self.tables[scope]
        except KeyError:
            raise StoreError(f"No scope {scope!r}; use {', '.join(self.tables)}.") from None

    # Writing

    def _refuse_old(self, packed: Mapping[Scope, pl.DataFrame]) -> None:
        """TooOldError for rows that the server would take and throw away at once; before anything is sent."""
        if self.keeps_s is None:
            return
        since = self._clock() - self.keeps_s
        if lost := sum(int((some["ts"] < since).sum()) for some in packed.values()):
            raise TooOldError(
                f"{lost} rows are older than what VictoriaMetrics keeps ({self.keeps_s / DAY_S:g} days): raise its -retentionPeriod.",
                since,
            )

    def _packed(self, scope: Scope, frame: pl.DataFrame) -> pl.DataFrame:
        table = self.table(scope)
        packed, misfits = table.pack(frame)
        if misfits and not self.misfits:
            logger.warning("%d values of scope %s do not fit their columns and are stored as absent", misfits, scope)
        self.misfits += misfits
        return packed

    def _send(self, table: Table, packed: pl.DataFrame, doubtful: pl.Series) -> None:
        fresh = packed.filter(~doubtful)
        versions = pl.Series("version", [self._first] * len(fresh), dtype=pl.Int64)
        if doubtful.any():
            again, numbers = self._again(table, packed.filter(doubtful))
            both = pl.concat([fresh.with_columns(version=versions), again.with_columns(version=numbers)], how="diagonal")
            both = both.sort(table.keys)
            fresh, versions = both.drop("version"), both["version"]
        if fresh.is_empty():
            return
        rows = table.unpack(fresh)
        try:
            labels = self._labels(table.scope, fresh["entity"].unique().to_list())
            for body in remote_write.requests(fields(table, rows, versions, self._fleet, labels)):
                self._write.send("/api/v1/write", body, remote_write.HEADERS)
        except ValueError as error:
            raise StoreError(f"Rows of scope {table.scope} cannot be stored: {error}.") from error

    def _doubtful(self, scope: Scope, packed: pl.DataFrame) -> pl.Series:
        """Which rows may be in the store; from now on all of them may."""
        last = dict(packed.group_by("entity").agg(pl.col("ts").max().cast(pl.Int64)).iter_rows())
        with self._lock:
            newest = self._newest[scope]
            known = {entity: newest.get(entity, MAX_KEY) for entity in last}
            for entity, ts in last.items():
                newest[entity] = max(ts, newest.get(entity, 0))
        return packed["ts"] <= packed["entity"].replace_strict(list(known), list(known.values()), return_dtype=pl.Int64)

    def _again(self, table: Table, packed: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
        """Of rows that may be there already those that are not, or are with another content; and the version of each."""
        keys, parts = list(table.keys), []
        for part in by_hour(packed):
            low, high = int(part["ts"].min()), int(part["ts"].max())  # type: ignore[arg-type] # whole numbers
            some = part["entity"].unique().to_list()
            there, _ = self._rows(table, low, high + 1, some, keys, anew=True)
            if not there.join(part, on=keys, how="semi").is_empty():
                parts.append(self._changed(table, part, low, high, some))
            else:
                parts.append(part.with_columns(version=pl.lit(self._first, pl.Int64)))
        left = pl.concat(parts, how="diagonal").sort(keys)
        return left.drop("version"), left["version"]

    def _changed(self, table: Table, part: pl.DataFrame, low: int, high: int, entities: list[int]) -> pl.DataFrame:
        names = list(table.columns)
        there, versions = self._rows(table, low, high + 1, entities, names, anew=True)
        lacking = [pl.lit(None, table.stored[name]).alias(name) for name in names if name not in part.columns]
        whole = part.with_columns(lacking).select(names)
        new = whole.join(there, on=names, how="anti", nulls_equal=True).select(table.keys)
        numbered = there.select(table.keys).with_columns(version=(versions + 1).clip(0, VERSIONS - 1).cast(pl.Int64))
        changed = part.join(new, on=list(table.keys), how="semi", maintain_order="left")
        return changed.join(numbered, on=list(table.keys), how="left", maintain_order="left").with_columns(
            pl.col("version").fill_null(self._first)
        )

    # Reading

    def _rows(
        self, table: Table, start: int, end: int, entities: Collection[int] | None, names: list[str], *, anew: bool = False
    ) -> tuple[pl.DataFrame, pl.Series]:
        """Stored rows with start <= ts < end and their versions; `anew` asks past what the server remembers of earlier answers."""
        start, end = max(start, 0), min(end, MAX_KEY + 1)
        possible = None if entities is None else [entity for entity in entities if 0 <= entity <= MAX_KEY]
        if start >= end or (possible is not None and not possible):
            return rows(table, exported(b""), names)
        metrics = [name for name in names if table.columns[name].is_metric]
        everything = len(metrics) == sum(column.is_metric for column in table.columns.values())
        wide = possible is not None and len(possible) > WIDE
        wanted = None if everything else [ROW, *metrics]
        match = selectors(table.scope, self._fleet, wanted, None if wide else possible, once=uuid.uuid4().hex if anew else None)
        form = [("match[]", one) for one in match]
        form += [("start", str(start)), ("end", f"{end - 1}.999"), ("reduce_mem_usage", "1")]
        found = exported(self._read.ask("/api/v1/export", form, EXPORT_BYTES))
        if wide and possible is not None:
            found = replace(found, blocks=found.blocks.filter(pl.col("entity").is_in(possible)))
        return rows(table, found, names)

    def _seen(self, table: Table, since: int, entities: Collection[int] | None) -> pl.DataFrame:
        """The keys of the newest row of each entity since then."""
        keys = table.keys[:-1]
        schema = dict.fromkeys(table.keys, pl.Int64)
        possible = None if entities is None else [entity for entity in entities if 0 <= entity <= MAX_KEY]
        if since > MAX_KEY or possible == []:
            return pl.DataFrame(schema=schema)
        until = max(int(self._clock()), since) + AHEAD_S
        found: dict[tuple[int, ...], int] = {}
        for match in selectors(table.scope, self._fleet, [ROW], possible):
            for one in promql.instant(self._read, f"tlast_over_time({match}[{until - since + 1}s])", until):
                key = tuple(int(one.metric[name]) for name in keys)
                second = int(float(one.value[1]) + 0.0005) if one.value else -1
                if second >= since:
                    found[key] = max(second, found.get(key, 0))
        return pl.DataFrame([(*key, ts) for key, ts in found.items()], schema=schema, orient="row")


def by_hour(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """The rows of each hour, oldest first."""
    return [rows.filter(pl.col("ts") // HOUR_S == hour) for hour in (rows["ts"] // HOUR_S).unique().sort()]


def _together(seen: pl.DataFrame) -> list[pl.DataFrame]:
    """The keys in groups that one short span covers."""
    if seen.is_empty():
        return []
    seen = seen.sort("ts")
    group = (seen["ts"].diff().fill_null(0) > TOGETHER_S).cum_sum()
    return seen.with_columns(group=group).partition_by("group", include_key=False)
