"""The rarer features' share of a window: the last whole minutes, each read and folded once (advisor/partial.py), merged at each look.

A process that judges every ten seconds so reads a minute of the rarer metrics once, not thirty times. Another process, or one that
just began, reads the minutes that it lacks. What comes later than LATE_S after its minute is not seen here.
"""

import threading
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

import polars as pl

from advisor import partial
from advisor.folds import MINUTE_S
from advisor.partial import Partial
from fleet.store import clock
from wire.metrics import Scope, of

MINUTE: Final = int(MINUTE_S)
LATE_S: Final = 10
"""Ingest writes every few seconds, and agents' clocks are right to two."""
_SCOPES: Final[dict[Scope, tuple[str, str]]] = {"gpu": ("gpu", "gpu"), "host": ("host", "node"), "process": ("process", "gpu"),
                                                "engine": ("engine", "service")}  # fmt: skip
"""By the store's scope: the partial's, and what its entity is called there."""

_known: dict[int, Partial] = {}
_merged: dict[tuple[int, ...], Partial] = {}
_reading = threading.Lock()


def last(at: datetime, span_s: int, serves: pl.DataFrame) -> Partial:
    """The whole minutes of the `span_s` seconds before `at`, merged; StoreError when the store cannot be read."""
    starts = _starts(at, span_s)
    with _reading:
        if starts in _merged:
            return _merged[starts]
        missing = [start for start in starts if start not in _known]
        ahead = {scope: clock.ahead(scope) for scope in _SCOPES} if missing else {}
        for start in missing:
            _known[start] = _minute(start, serves, ahead)
        for old in [start for start in _known if start < starts[0]]:
            del _known[old]
        _merged.clear()
        _merged[starts] = partial.merge([_known[start] for start in starts])
        return _merged[starts]


def once(at: datetime, span_s: int, serves: pl.DataFrame) -> Partial:
    """As `last`, of a window of the past: nothing of it is kept for the next look."""
    ahead = {scope: clock.ahead(scope) for scope in _SCOPES}
    return partial.merge([_minute(start, serves, ahead) for start in _starts(at, span_s)])


def _starts(at: datetime, span_s: int) -> tuple[int, ...]:
    end = (int(at.timestamp()) - LATE_S) // MINUTE * MINUTE
    return tuple(range(end - max(1, span_s // MINUTE) * MINUTE, end, MINUTE))


def forget() -> None:
    """Read everything anew at the next look: for tests, and for a store that was replaced."""
    with _reading:
        _known.clear()
        _merged.clear()


def _minute(start: int, serves: pl.DataFrame, ahead: Mapping[Scope, clock.Ahead]) -> Partial:
    read = {}
    for scope, (name, key) in _SCOPES.items():
        frame = clock.window(scope, start, start + MINUTE, None, metrics(scope), ahead=ahead[scope])
        read[name] = frame.rename({"entity": key, "ts": "t"}).with_columns(
            pl.col(key).cast(pl.Int64), pl.col("t").cast(pl.Float64)
        )
    return partial.partial(read["gpu"], read["host"], read["process"], read["engine"], serves)


def metrics(scope: Scope) -> Collection[str]:
    """The metrics of the store's scope that partials are made of."""
    known = {metric.name for metric in of(scope) if metric.kept}
    return [name for name in partial.metrics(_SCOPES[scope][0]) if name in known]
