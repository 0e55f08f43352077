"""The store in dicts, for tests: the same five calls, nothing kept."""

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from fleet.store.buckets import answer, buckets, check
from fleet.store.columns import MAX_KEY, Table, tables
from fleet.store.rollup import roll
from fleet.store.series import StoreError
from wire.metrics import Scope

HOUR_S = 3600
DAY_S = 86_400


class MemorySeries:
    """Rows by scope and key. Values are kept as they would be on disk, so both engines give the same answers."""

    def __init__(self) -> None:
        self._tables = tables()
        self._rows: dict[Scope, dict[tuple[int, ...], dict[str, Any]]] = {scope: {} for scope in self._tables}
        self.misfits = 0

    def write(self, scope: Scope, frame: pl.DataFrame) -> None:
        """Keep the rows; a key's later row takes the place of the earlier one."""
        table = self._table(scope)
        packed, misfits = table.pack(frame)
        self.misfits += misfits
        for row in packed.iter_rows(named=True):
            self._rows[scope][tuple(row[key] for key in table.keys)] = row

    def window(
        self, scope: Scope, start: int, end: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.window."""
        table = self._table(scope)
        names = table.names(metrics)
        wanted = None if entities is None else set(entities)
        rows = [
            row
            for _, row in sorted(self._rows[scope].items())
            if start <= row["ts"] < end and (wanted is None or row["entity"] in wanted)
        ]
        return table.unpack(pl.DataFrame(rows, schema={name: table.stored[name] for name in names}))

    def series(
        self, scope: Scope, entity: int, metrics: Collection[str], start: int, end: int, step_s: int, *, full: bool = False
    ) -> pl.DataFrame:
        """As Series.series, always from the rows."""
        table = self._table(scope)
        names = check(table, metrics, step_s)
        return buckets(table, self.window(scope, start, end, [entity], names), names, step_s, full=full)

    def hours(self, scope: Scope, start: int, end: int, metrics: Collection[str]) -> pl.DataFrame:
        """As Hourly.hours, always from the rows."""
        table = self._table(scope)
        names = check(table, metrics, HOUR_S)
        return answer(
            table, roll(table, self.window(scope, start, end, None, names), names, HOUR_S), names, full=True, of_all=True
        )

    def latest(
        self, scope: Scope, since: int, entities: Collection[int] | None = None, metrics: Collection[str] | None = None
    ) -> pl.DataFrame:
        """As Series.latest."""
        table = self._table(scope)
        rows = self.window(scope, since, MAX_KEY + 1, entities, metrics)
        return rows.unique(table.keys[:-1], keep="last", maintain_order=True)

    def prune(self, before: Mapping[int, int], most_bytes: int | None = None) -> int:
        """Drop whole days of rows that end by `before[1]`; 0, since nothing was on disk."""
        first_kept = before.get(1, 0) // DAY_S * DAY_S
        for scope, rows in self._rows.items():
            self._rows[scope] = {key: row for key, row in rows.items() if row["ts"] >= first_kept}
        return 0

    def _table(self, scope: Scope) -> Table:
        try:
            return self._tables[scope]
        except KeyError:
            raise StoreError(f"No scope {scope!r}; use {', '.join(self._tables)}.") from None
