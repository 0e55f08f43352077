"""Frames of slow features: kept one row a scope and part, read back as one frame a scope."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any, Final

import polars as pl
from django.conf import settings

from advisor.finding import Scope
from advisor.slow_columns import COLUMNS, CONSTANTS, KEYS, Part, Types
from fleet.slow.models import SlowFrame

log = logging.getLogger(__name__)

FRESH: Final[Mapping[Part, timedelta]] = {"now": timedelta(minutes=10), "day": timedelta(hours=2)}
"""What is older says nothing of now: its columns are unknown."""


def frames(at: datetime) -> dict[str, pl.DataFrame]:
    """By scope, one row a target and every column of advisor/slow_columns.py; a target that the task has not seen yet has no row.

    Frames that are older than FRESH, missing or damaged count as empty: unknown, not zero.
    """
    kept = {(row.scope, row.part): row for row in SlowFrame.objects.filter(part__in=FRESH)}
    found: dict[str, pl.DataFrame] = {}
    for scope, parts in COLUMNS.items():
        now, day = (_read(kept.get((scope, part)), scope, parts[part], at - FRESH[part]) for part in FRESH)
        whole = now.join(day, on=scope, how="full", coalesce=True, suffix=":day")
        found[scope] = whole.with_columns(pl.lit(value, CONSTANTS[name]).alias(name) for name, value in constants().items())
    return found


def constants() -> dict[str, float | str | None]:
    """What the site's settings say, for every target alike: those too that no frame has yet."""
    return {
        "gpu_hour_price": settings.FETTLE_GPU_HOUR_PRICE,
        "currency": settings.FETTLE_CURRENCY,
        "energy_price_per_kwh": settings.FETTLE_ENERGY_PRICE_PER_KWH,
        "pue": settings.FETTLE_PUE,
        "mtbf_gpu_hours": settings.FETTLE_MTBF_GPU_HOURS,
    }


def keep(scope: Scope, part: Part, at: datetime, frame: pl.DataFrame) -> None:
    """Put the frame in the place of the one before."""
    _write(scope, part, at, frame)


def framed(scope: Scope, part: Part, rows: Mapping[Any, Mapping[str, Any]] | Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows (by their key, or with it) as a frame with every column of the part; what a row lacks is null."""
    listed = [{scope: key, **row} for key, row in rows.items()] if isinstance(rows, Mapping) else list(rows)
    return pl.DataFrame(listed, schema=_schema(scope, COLUMNS[scope][part]), strict=False)


def keep_rows(scope: Scope, part: str, at: datetime, rows: pl.DataFrame) -> None:
    """Put rows that the next run of the task goes on from in the place of those before; the judge does not see them."""
    _write(scope, part, at, rows)


def kept_rows(scope: Scope, part: str, schema: pl.Schema) -> pl.DataFrame:
    """The rows kept, however old; none where they are missing, damaged or of another release's columns."""
    kept = SlowFrame.objects.filter(scope=scope, part=part).first()
    try:
        rows = schema.to_frame() if kept is None else pl.read_ipc(BytesIO(bytes(kept.payload)))
    except pl.exceptions.PolarsError:
        rows = schema.to_frame()
    return rows if rows.schema == schema else schema.to_frame()


def _write(scope: Scope, part: str, at: datetime, frame: pl.DataFrame) -> None:
    buffer = BytesIO()
    frame.write_ipc(buffer, compression="zstd")
    SlowFrame.objects.update_or_create(scope=scope, part=part, defaults={"at": at, "payload": buffer.getvalue()})


def _read(kept: SlowFrame | None, scope: Scope, types: Types, since: datetime) -> pl.DataFrame:
    schema = _schema(scope, types)
    if kept is None or kept.at < since:
        return pl.DataFrame(schema=schema)
    try:
        frame = pl.read_ipc(BytesIO(bytes(kept.payload)))
        # An older release wrote it: what it has of today's columns counts.
        wanted = [
            pl.col(name).cast(kind) if name in frame.columns else pl.lit(None, kind).alias(name) for name, kind in schema.items()
        ]
        return frame.select(wanted)
    except pl.exceptions.PolarsError as error:
        log.error(
            "The %s features of scope %s cannot be read and are unknown until they are made anew: %s", kept.part, scope, error
        )
        return pl.DataFrame(schema=schema)


def _schema(scope: Scope, types: Types) -> Types:
    return {str(scope): KEYS[scope], **types}
