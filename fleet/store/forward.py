"""What is stored, to the site's own time series database too: Prometheus remote write 1.0 of the metrics that a list allows.

Names, labels and units are those of the series in VictoriaMetrics, without what marks a row there. Rows that are not newer than
what was sent of the same GPU (host, engine, process) are left out unless the receiver takes them: Prometheus would refuse the whole
request for one of them.
"""

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import polars as pl
from django.conf import settings

from fleet.store import remote_write
from fleet.store.access import access, is_url, mistakes
from fleet.store.columns import Table, tables
from fleet.store.endpoint import Endpoint, RefusedError
from fleet.store.labels import Labels
from fleet.store.series import StoreError
from fleet.store.victoria_rows import fields
from wire.metrics import Scope

PREFIX: Final = "FETTLE_FORWARD"
SERIES_BYTES: Final = 300
"""Of one series in a request, its labels and some samples: so large a request is made as REQUEST_BYTES allows."""
PIECES: Final = 64
"""Into so many requests one is cut at most that is refused, to find what is not wanted in it."""
FEWEST_PIECES: Final = 2
"""Once everything is refused; with the first row that is taken they are PIECES again."""

KNOWN: Final = 200_000
"""Of so many GPUs, processes, … it is known until when they were sent; beyond, the older half is forgotten."""

Rows: TypeAlias = tuple[Scope, pl.DataFrame]


class Forward:
    """The receiver. One thread uses it; making one connects to nothing."""

    def __init__(self, to: Endpoint, chosen: Mapping[Scope, Sequence[str]], labels: Labels, fleet: str, takes_late: bool) -> None:
        self.name = to.name
        self.chosen = chosen
        self._to = to
        self._labels = labels
        self._fleet = fleet
        self._takes_late = takes_late
        self._pieces = PIECES
        self._tables = tables()
        self._sent: dict[Scope, dict[tuple[int, ...], int]] = {scope: {} for scope in chosen}

    def parts(self, scope: Scope, frame: pl.DataFrame) -> tuple[list[Rows], int]:
        """The rows in as many parts as requests are made of them, and how many were left out because they are late."""
        table = self._tables[scope]
        names = [*table.keys, *table.texts, *self.chosen[scope]]
        packed, _ = table.pack(frame.select(name for name in frame.columns if name in names))
        rows = table.unpack(packed)
        fresh = rows if self._takes_late else self._fresh(table, rows)
        entities = fresh["entity"].unique().sort().to_list()
        together = max(1, remote_write.REQUEST_BYTES // (SERIES_BYTES * max(1, len(self.chosen[scope]))))
        groups = [entities[first : first + together] for first in range(0, len(entities), together)]
        parts = [(scope, fresh if len(groups) == 1 else fresh.filter(pl.col("entity").is_in(group))) for group in groups]
        return parts, rows.height - fresh.height

    def send(self, part: Rows) -> int:
        """Send the part: how many of its rows the receiver refuses, whichever way the part is cut. StoreError: try again later."""
        scope, rows = part
        refused, left = 0, self._pieces
        waiting = [rows]
        while waiting:
            some = waiting.pop()
            try:
                self._post(scope, some)
            except RefusedError:
                left -= 1
                entities = some["entity"].unique().sort()
                if len(entities) < 2 or left <= 0:
                    refused += some.height
                    continue
                first = pl.col("entity") < entities[len(entities) // 2]
                waiting += [some.filter(~first), some.filter(first)]
        self._pieces = PIECES if refused < rows.height else max(FEWEST_PIECES, self._pieces // 8)
        self._note(scope, rows)
        return refused

    def _post(self, scope: Scope, rows: pl.DataFrame) -> None:
        table = self._tables[scope]
        labels = self._labels(scope, rows["entity"].unique().to_list())
        versions = pl.repeat(0, rows.height, dtype=pl.Int64, eager=True)
        try:
            bodies = list(remote_write.requests(fields(table, rows, versions, self._fleet, labels, marks=False)))
        except ValueError as error:  # a time that no request can tell
            raise RefusedError(f"Rows of scope {scope} cannot be forwarded: {error}.") from error
        for body in bodies:
            self._to.send("", body, remote_write.HEADERS)

    def _fresh(self, table: Table, rows: pl.DataFrame) -> pl.DataFrame:
        sent, keys = self._sent[table.scope], list(table.keys[:-1])
        if not sent:
            return rows
        limits = pl.DataFrame(
            [(*key, ts) for key, ts in sent.items()],
            schema=[*((key, pl.Int64) for key in keys), ("sent", pl.Int64)],
            orient="row",
        )
        joined = rows.join(limits, on=keys, how="left", maintain_order="left")
        return joined.filter(pl.col("sent").is_null() | (pl.col("ts") > pl.col("sent"))).drop("sent")

    def _note(self, scope: Scope, rows: pl.DataFrame) -> None:
        """Remember until when each was sent; of processes and others that end, those of the last hours."""
        if self._takes_late or rows.is_empty():
            return
        sent, keys = self._sent[scope], list(self._tables[scope].keys[:-1])
        for *key, ts in rows.group_by(keys).agg(pl.col("ts").max()).iter_rows():
            sent[tuple(key)] = max(ts, sent.get(tuple(key), 0))
        if len(sent) > KNOWN:
            kept = sorted(sent.items(), key=lambda item: item[1])[len(sent) // 2 :]
            self._sent[scope] = dict(kept)


def forward() -> Forward | None:
    """The receiver that FETTLE_FORWARD_URL names, None where it is empty; StoreError with what is wrong first."""
    if not settings.FETTLE_FORWARD_URL:
        return None
    if wrong := next(forward_mistakes(), None):
        raise StoreError(wrong)
    to = Endpoint(settings.FETTLE_FORWARD_URL, access(PREFIX), "The receiver of forwarded telemetry", PREFIX)
    return Forward(
        to, chosen(settings.FETTLE_FORWARD_METRICS), Labels(), settings.FETTLE_STORE_FLEET, settings.FETTLE_FORWARD_LATE
    )


def chosen(patterns: Sequence[str]) -> dict[Scope, list[str]]:
    """The metrics that the patterns name (`gpu.power_*`, `host.*`), by scope; StoreError for a pattern that names none."""
    found: dict[Scope, list[str]] = {}
    keys = {f"{scope}.{name}": (scope, name) for scope, table in tables().items() for name in table.metrics}
    for pattern in patterns:
        named = fnmatch.filter(keys, pattern)
        if not named:
            raise StoreError(
                f"FETTLE_FORWARD_METRICS: {pattern!r} names no metric; write scope and name such as gpu.power_* or host.*, as docs/reference/metrics.md has them."
            )
        for key in named:
            scope, name = keys[key]
            some = found.setdefault(scope, [])
            if name not in some:
                some.append(name)
    return found


def forward_mistakes() -> Iterator[str]:
    """A sentence for each FETTLE_FORWARD_* that cannot be right."""
    if not settings.FETTLE_FORWARD_URL:
        return
    if not is_url(settings.FETTLE_FORWARD_URL):
        yield "FETTLE_FORWARD_URL is no address; give the whole one, such as https://prometheus.example.org:9090/api/v1/write."
    yield from mistakes(PREFIX)
    try:
        chosen(settings.FETTLE_FORWARD_METRICS)
    except StoreError as error:
        yield str(error)
