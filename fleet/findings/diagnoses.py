"""The newest diagnosis of each GPU and job, as rows."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db import connection, transaction

from advisor.diagnosis import Diagnosis as Diagnosed
from fleet.findings.judged import Place, Target
from fleet.findings.models import Diagnosis
from fleet.findings.rows import json_text

JOB_KEPT: Final = timedelta(hours=1)
"""How long the diagnosis of a job that is gone stays."""
_KEY: Final = ("scope", "target")
_VALUES: Final = ("node_id", "gpu_id", "bottleneck", "confidence", "shares", "window_start", "window_end")


def keep(diagnosed: Iterable[Diagnosed], places: Mapping[Target, Place], start: datetime, at: datetime) -> None:
    """Store what was diagnosed of the window from `start` to `at`; the diagnoses of jobs long gone go."""
    span = tuple(connection.ops.adapt_datetimefield_value(moment) for moment in (start, at))
    rows = [
        (
            one.scope,
            one.target,
            place.node,
            place.gpus[0] if one.scope == "gpu" else None,
            one.bottleneck or "",
            one.confidence,
            json_text(one.shares),
            *span,
        )
        for one in diagnosed
        if (place := places.get((one.scope, one.target))) is not None
    ]
    with transaction.atomic():
        if rows:
            with connection.cursor() as cursor:
                cursor.executemany(_upsert(), rows)
        Diagnosis.objects.filter(scope="job", window_end__lt=at - JOB_KEPT).delete()


def _upsert() -> str:
    """One statement prepared once: the ORM's takes four times the CPU, as most diagnoses of a working fleet change each time."""
    quote = connection.ops.quote_name
    names = [quote(name) for name in (*_KEY, *_VALUES)]
    key, values = names[: len(_KEY)], names[len(_KEY) :]
    return (
        f"INSERT INTO {quote(Diagnosis._meta.db_table)} ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"  # noqa: S608 - no input in the names
        f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(f'{name} = EXCLUDED.{name}' for name in values)}"
    )
