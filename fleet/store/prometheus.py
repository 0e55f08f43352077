"""Reads a fleet from a Prometheus (or Thanos, Mimir, VictoriaMetrics) that scrapes dcgm-exporter; it never writes.

Raw samples are asked for with range selectors, so times are those of the scrapes, nothing is filled in between, and a series
that ended gives no more rows. GPUs are known by UUID from the inventory, which prometheus_inventory.py fills.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

import polars as pl

from fleet.inventory.models import PROMETHEUS, Gpu
from fleet.store import prometheus_buckets, prometheus_cells, promql
from fleet.store.buckets import buckets, by_days, check
from fleet.store.columns import MAX_KEY, Table, tables
from fleet.store.endpoint import Endpoint
from fleet.store.series import StoreError
from wire import dcgm_fields
from wire.metrics import METRICS, Metric, Scope

SOURCE: Final = PROMETHEUS
"""Node.source of the nodes that are read here."""
DAY_S: Final = 86_400
RAW_S: Final = 2 * DAY_S
"""Of a longer span the server makes the buckets."""
AHEAD_S: Final = 60
TOGETHER: Final = 500
"""GPUs in one query: it keeps an answer to tens of megabytes."""
SPAN_S: Final = 6 * 3600
"""Of one query."""


class PrometheusSeries:
    """The five calls on a Prometheus. Threads may share it; making one connects to nothing."""

    def __init__(
        self,
        read: Endpoint,
        selector: str = "",
        metrics: Iterable[Metric] = METRICS,
        clock: Callable[[], float] = time.time,
        cluster_label: str = "cluster",
    ) -> None:
        self.tables = tables(metrics)
        self.misfits = 0
        self.read = read
        self.selector = selector
        self.cluster_label = cluster_label
        self._clock = clock
        self._habits = prometheus_cells.Habits()

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        """StoreError: there is nothing to write to."""
        raise StoreError(
            f"{self.read.name} is only read (FETTLE_STORE=prometheus-read), so agents' telemetry is not stored; choose another store for a fleet with agents."
        )

    def window(
        self, scope: Scope, start: int, end: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.window: a row for each scrape, at its second. Scopes other than gpu are empty."""
        table = self.table(scope)
        names = table.names(metrics)
        start, end = max(start, 0), min(end, MAX_KEY + 1)
        known = _known(entities) if scope == "gpu" and start < end else {}
        if not known:
            return table.empty(names)
        fields = _fields(names)
        parts = []
        uuids = sorted({uuid.partition(":")[0] for uuid in known})
        for first in range(0, len(uuids), TOGETHER):
            some = uuids[first : first + TOGETHER]
            for begin in range(start, end, SPAN_S):
                told = prometheus_cells.readings(self._ask(fields, some, begin, min(end, begin + SPAN_S)), self._habits)
                whole = prometheus_cells.whole(told, _slices(some))
                parts.append(prometheus_cells.rows(whole, known))
        return self._typed(table, pl.concat(parts, how="diagonal"), names)

    def series(
        self, scope: Scope, entity: int, metrics: Collection[str], start: int, end: int, step_s: int, *, full: bool = False
    ) -> pl.DataFrame:
        """As Series.series, from the scrapes a day at a time; of more than RAW_S the server makes the buckets, unless they are `full`
        or of a split GPU.
        """
        table = self.table(scope)
        names = check(table, metrics, step_s)
        start, end = max(start, 0), min(end, MAX_KEY + 1)
        if end - start > RAW_S and not full and scope == "gpu":
            whole = _known([entity], split=False)
            for uuid in whole:
                fields = _fields(names)
                return prometheus_buckets.buckets(
                    self.read, self.selector, table, uuid, fields, names, start, end, step_s, self._habits
                )
        return by_days(
            start,
            end,
            step_s,
            lambda low, high: buckets(table, self.window(scope, low, high, [entity], names), names, step_s, full=full),
        )

    def latest(
        self, scope: Scope, since: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.latest."""
        table = self.table(scope)
        rows = self.window(scope, since, max(int(self._clock()), since) + AHEAD_S, entities, metrics)
        return rows.unique(table.keys[:-1], keep="last", maintain_order=True)

    def prune(self, before: Mapping[int, int], most_bytes: int | None = None) -> int:
        """0: what a Prometheus keeps is its own matter."""
        return 0

    def ready(self) -> None:
        """Return when the server answers; StoreError says why it cannot be used."""
        promql.instant(self.read, "vector(1)", self._clock())

    def table(self, scope: Scope) -> Table:
        """The scope's columns; StoreError when there is no such scope."""
        try:
            return self.tables[scope]
        except KeyError:
            raise StoreError(f"No scope {scope!r}; use {', '.join(self.tables)}.") from None

    def _ask(self, fields: Collection[str], uuids: Collection[str], start: int, end: int) -> list[promql.Result]:
        """The samples of these fields and GPUs with start <= second < end."""
        found: list[promql.Result] = []
        for label in ("UUID", "uuid"):  # a fleet may have exporters of both kinds, and one may change
            matchers = f'__name__=~"{"|".join(fields)}",{label}=~"{"|".join(uuids)}"'
            query = f"{{{promql.joined(matchers, self.selector)}}}[{end - start}s]"
            found += promql.instant(self.read, query, end - 0.001)
        for one in found:
            one.values = [(at, text) for at, text in one.values if start <= at < end]
        return found

    def _typed(self, table: Table, rows: pl.DataFrame, names: list[str]) -> pl.DataFrame:
        """Rows as the table has them: exact to its steps, all columns, ordered by key."""
        rows = rows.select(*table.keys, *(name for name in rows.columns if name in names and name not in table.keys))
        packed, misfits = table.pack(rows)
        self.misfits += misfits
        full = pl.concat([pl.DataFrame(schema={name: table.stored[name] for name in names}), packed], how="diagonal")
        return table.unpack(full.select(names))


def _known(entities: Collection[int] | None, *, split: bool = True) -> dict[str, int]:
    """Ids by UUID, of the GPUs that are read from Prometheus; with `split` False without cards that have instances, and without those."""
    gpus = Gpu.objects.filter(node__source=SOURCE)
    if not split:
        gpus = gpus.filter(parent_uuid="").exclude(mig_mode=True)
    if entities is not None:
        wanted = set(entities)
        return {uuid: pk for uuid, pk in gpus.values_list("uuid", "pk") if pk in wanted}
    return dict(gpus.values_list("uuid", "pk"))


def _slices(uuids: Collection[str]) -> dict[str, int]:
    """Compute slices of the cards that have not seven."""
    return dict.fromkeys(Gpu.objects.filter(uuid__in=uuids, model__contains="A30").values_list("uuid", flat=True), 4)


def _fields(names: Collection[str]) -> list[str]:
    """Every name of the fields that these columns are made of, old and new."""
    wanted = set(names)
    numbers = {number for number, metric in dcgm_fields.metrics().items() if metric.name in wanted}
    if not wanted.isdisjoint(prometheus_cells.PROFILED):
        numbers |= {203, *range(1001, 1009)}  # what shows that profiling has stopped
    if "mem_total_bytes" in wanted:
        numbers |= {250, dcgm_fields.FB_FREE, 252, 253}
    return sorted(name for number in numbers for name in dcgm_fields.names(number))
