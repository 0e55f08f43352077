"""Stretches of serving engines from the store."""

from datetime import datetime, timedelta
from typing import Final

import polars as pl

from advisor.verification import service
from advisor.verification.stretch import Stretch
from fleet.findings.models import Finding
from fleet.inventory.models import Engine
from fleet.store import clock
from fleet.verdicts.models import Verification

EARLY: Final = timedelta(seconds=60)


def engine_of(finding: Finding) -> Engine | None:
    """The engine that a finding on a service is of; None where it is known no more."""
    return Engine.objects.filter(pk=finding.target).first() if finding.target.isdecimal() else None


def read(engine: Engine, start: datetime, end: datetime, gpu_model: str = "", gpus: int = 0) -> Stretch | None:
    """What the engine told from `start` to `end`; None where nothing was stored. StoreError when the store cannot be read."""
    rows = clock.window("engine", int(start.timestamp()), int(end.timestamp()), [engine.pk], service.METRICS)
    if rows.is_empty():
        return None
    rows = rows.rename({"ts": "t"}).with_columns(pl.col("t").cast(pl.Float64))
    return service.of_rows(rows, engine.name, engine.model, gpu_model, gpus)


def engine_after(row: Verification) -> Engine | None:
    """The engine that serves since the change: the same one, or the only one of its kind and model that began on its node since.

    One that is started on another port is asked elsewhere, and so is another engine.
    """
    engine = Engine.objects.filter(pk=row.target).first() if row.target.isdecimal() else None
    if engine is None or engine.last_seen_at >= row.applied_at:
        return engine
    same = Engine.objects.filter(
        node=engine.node_id, kind=engine.kind, model=engine.model, first_seen_at__gte=row.applied_at - EARLY
    )
    found = list(same[:2])
    return found[0] if len(found) == 1 else engine
