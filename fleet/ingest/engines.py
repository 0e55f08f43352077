"""Serving engines become rows: an engine appears when a batch names it, and its id is the key of its series.

Only the store's thread calls this, before the chunk is written and acked. Nothing is kept in memory: what a node has is
read with each flush that tells of engines, so a row that somebody deleted is made anew.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

import polars as pl
from django.db import connection, transaction

from fleet.ingest.accept import clean
from fleet.ingest.columns import Chunk
from fleet.inventory.models import Engine, Node

SEEN_EVERY_S: Final = 60.0
"""How exact `last_seen_at` is: an engine that is there does not make a write of each flush."""
MAX_ROWS: Final = 256
"""Of one node; beyond it those that were not told of for the longest go when new ones come."""
_IN_ONE_QUERY: Final = 500

_Key: TypeAlias = tuple[int, str]


class _Told(NamedTuple):
    """The newest words of one engine, at `t` on the server's clock; `first` is when the chunks first tell of it.

    `why`: its reasons for having no values, where the chunks tell of them, and their time.
    """

    first: float
    t: float
    kind: str
    model: str
    pid: int | None
    why: tuple[float, str, dict[str, str]] | None = None


def resolve(chunks: Iterable[Chunk]) -> pl.DataFrame | None:
    """The chunks' rows for the store's scope `engine`, their engines in the inventory; None where no engine is told of.

    Rows of a node that was deleted meanwhile are left out.
    """
    chunks = list(chunks)
    told = _newest(chunks)
    if not told:
        return None
    known = _known({node for node, _ in told})
    _update([(known[key], one) for key, one in told.items() if key in known])
    missing = {key: one for key, one in told.items() if key not in known}
    if missing:
        _make_room(known, missing, told)
        known |= _add(missing)
    keys = [(node, name, engine.pk) for (node, name), engine in known.items() if (node, name) in told]
    ids = pl.DataFrame(keys, schema={"node": pl.Int64, "name": pl.String, "entity": pl.Int64}, orient="row")
    rows = pl.concat([frame for chunk in chunks for frame in chunk.engines], how="diagonal")
    return rows.join(ids, on=("node", "name"), maintain_order="left").drop("node", "name")


def _newest(chunks: Iterable[Chunk]) -> dict[_Key, _Told]:
    told: dict[_Key, _Told] = {}
    for one in (one for chunk in chunks for one in chunk.taken):
        engines = one.batch.engines
        for name, kind, model, pid in zip(engines.name, engines.kind, engines.model, engines.pid, strict=True):
            key = (one.session.node, name)
            known = told.get(key)
            first = min(one.t, known.first) if known else one.t
            why = known.why if known else None
            told[key] = (
                known._replace(first=first)
                if known and known.t > one.t
                else _Told(first, one.t, kind, clean(model, 200), pid, why)
            )
        for absence in engines.absent:
            key = (one.session.node, absence.name)
            before = told[key].why
            if before is None or one.t >= before[0]:
                told[key] = told[key]._replace(why=(one.t, absence.reason or "", absence.metrics))
    return told


def _known(nodes: set[int]) -> dict[_Key, Engine]:
    found: dict[_Key, Engine] = {}
    for part in _parts(sorted(nodes)):
        found.update({(engine.node_id, engine.name): engine for engine in Engine.objects.filter(node__in=part)})
    return found


def _update(pairs: Iterable[tuple[Engine, _Told]]) -> None:
    """Bring rows up to what was told: one prepared statement, where the ORM would build a case for each row."""
    adapt, table = connection.ops.adapt_datetimefield_value, connection.ops.quote_name(Engine._meta.db_table)
    rows = []
    for engine, told in pairs:
        newer_s = told.t - engine.last_seen_at.timestamp()
        silent, absent = engine.why_silent, engine.absent
        if told.why is not None and told.why[0] >= engine.last_seen_at.timestamp():
            _, silent, absent = told.why
        is_changed = (engine.kind, engine.model, engine.pid, engine.why_silent, engine.absent) != (
            told.kind, told.model, told.pid, silent, absent
        )  # fmt: skip
        if newer_s >= SEEN_EVERY_S or (newer_s >= 0 and is_changed):
            rows.append((told.kind, told.model, told.pid, silent, json.dumps(absent), adapt(_moment(told.t)), engine.pk))
    for start in range(0, len(rows), _IN_ONE_QUERY):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.executemany(
                f"UPDATE {table} SET kind = %s, model = %s, pid = %s, why_silent = %s, absent = %s, last_seen_at = %s "  # noqa: S608 - no input
                "WHERE id = %s",
                rows[start : start + _IN_ONE_QUERY],
            )


def _make_room(known: dict[_Key, Engine], missing: Iterable[_Key], told: Iterable[_Key]) -> None:
    """Remove the engines that were not told of for the longest where a node has too many, but for those of this flush."""
    kept = set(told)
    for node, more in Counter(node for node, _ in missing).items():
        mine = sorted((key for key in known if key[0] == node), key=lambda key: known[key].last_seen_at)
        over = len(mine) + more - MAX_ROWS
        gone = [known.pop(key).pk for key in [key for key in mine if key not in kept][: max(0, over)]]
        if gone:
            Engine.objects.filter(pk__in=gone).delete()


def _add(missing: dict[_Key, _Told]) -> dict[_Key, Engine]:
    made: dict[_Key, Engine] = {}
    for part in _parts(sorted({node for node, _ in missing})):
        here = set(Node.objects.filter(pk__in=part).values_list("pk", flat=True))
        rows = [
            Engine(node_id=node, name=name, kind=one.kind, model=one.model, pid=one.pid,
                   why_silent=one.why[1] if one.why else "", absent=one.why[2] if one.why else {},
                   first_seen_at=_moment(one.first), last_seen_at=_moment(one.t))
            for (node, name), one in missing.items() if node in here
        ]  # fmt: skip
        made.update({(row.node_id, row.name): row for row in Engine.objects.bulk_create(rows, batch_size=_IN_ONE_QUERY)})
    return made


def _parts(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + _IN_ONE_QUERY] for start in range(0, len(ids), _IN_ONE_QUERY)]


def _moment(t: float) -> datetime:
    return datetime.fromtimestamp(t, UTC)
