"""Writes of engines that take rows at once and have them on their disk a while later."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import polars as pl

from fleet.store.series import Series
from wire.metrics import Scope


@dataclass(frozen=True, slots=True)
class Pending:
    """Rows that a server took: `after_s` seconds from now they are on its disk, unless `check` raises StoreError then.

    The waiting is the caller's: many of these are under way at once, and a thread for each would be too many.
    """

    after_s: float
    check: Callable[[], None]


@runtime_checkable
class Deferring(Protocol):
    """An engine whose server keeps rows in memory for seconds before they would survive a kill."""

    def send(self, frames: Mapping[Scope, pl.DataFrame]) -> Pending | None:
        """Hand rows of several scopes over; None: there were none.

        StoreError when they were not taken, as of the check when they may be lost; the same rows may be sent again and are kept once.
        """

    def forget(self, scope: Scope, entities: Iterable[int]) -> None:
        """Trust nothing that is remembered of these: another process has written rows of them meanwhile."""


def send(series: Series, frames: Mapping[Scope, pl.DataFrame]) -> Pending | None:
    """Write rows of several scopes: None when they are durable already, else what to wait for before saying so."""
    if isinstance(series, Deferring):
        return series.send(frames)
    for scope, frame in frames.items():
        series.write(scope, frame)
    return None


def forget(series: Series, node: int, gpus: Iterable[int]) -> None:
    """Have an engine look anew at what is stored of a node that another process had."""
    if isinstance(series, Deferring):
        gpus = list(gpus)
        told: dict[Scope, list[int]] = {"host": [node], "gpu": gpus, "process": gpus}
        for scope, entities in told.items():
            series.forget(scope, entities)
