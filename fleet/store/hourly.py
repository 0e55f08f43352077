"""Roll-ups of an hour of the whole fleet, for means over days: what `Series.series` answers of one entity, of all at once."""

from collections.abc import Collection
from typing import Protocol, runtime_checkable

import polars as pl

from fleet.store.series import Series
from wire.metrics import Scope


@runtime_checkable
class Hourly(Protocol):
    """An engine that has roll-ups of an hour at hand."""

    def hours(self, scope: Scope, start: int, end: int, metrics: Collection[str]) -> pl.DataFrame:
        """`entity`, `ts` (the hour's first second, start <= ts < end) and of each metric the columns of `Series.series` with `full`.

        Ordered by entity and time. The newest hours are there once they are rolled up. Not for scope process.
        """


def hours(series: Series, scope: Scope, start: int, end: int, metrics: Collection[str]) -> pl.DataFrame | None:
    """The hours; None where the engine has none at hand, and asking for the rows of days would take too long."""
    return series.hours(scope, start, end, metrics) if isinstance(series, Hourly) else None
