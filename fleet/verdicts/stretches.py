"""Stretches of work from the store, and as rows keep them."""

from collections.abc import Collection, Mapping
from datetime import datetime
from io import BytesIO
from typing import Final

import polars as pl
from django.conf import settings

from advisor.frames import CONSTANTS, FACTS, Window
from advisor.job_family import job_family
from advisor.samples import GPU_METRICS, PROCESS_METRICS
from advisor.verification.stretch import REPORTED_METRICS, Stretch, of_window
from fleet.inventory.models import Gpu
from fleet.store import clock

_NOBODY: Final = pl.DataFrame(schema={"node": pl.Int64})


def read(
    cards: Collection[Gpu], start: datetime, end: datetime, family: str, told: Mapping[str, str], name: str = ""
) -> Stretch | None:
    """What the processes of `family` did on `cards` (with their nodes) from `start` to `end`; None where nothing was stored.

    A run's warm-up, where it lies within, is left out. With no `family`, whoever holds most of each GPU. StoreError when the store
    cannot be read.
    """
    keys = [card.pk for card in cards]
    span = int(start.timestamp()), int(end.timestamp())
    gpu = clock.window("gpu", *span, keys, GPU_METRICS).rename({"entity": "gpu", "ts": "t"})
    if gpu.is_empty():
        return None
    columns = (*PROCESS_METRICS, "user", *REPORTED_METRICS)
    process = clock.window("process", *span, keys, columns).rename({"entity": "gpu", "ts": "t"})
    gpu, process = (frame.with_columns(pl.col("gpu").cast(pl.Int64), pl.col("t").cast(pl.Float64)) for frame in (gpu, process))
    facts = pl.DataFrame([_facts(card) for card in cards], schema=FACTS, strict=False)
    programs = _programs(process, {card.pk: card.node.name for card in cards})
    own = frozenset(pid for pid, program in programs.items() if program == family) or None
    seen = sorted({program for pid, program in programs.items() if own is None or pid in own})
    return of_window(
        Window(gpu, _NOBODY, process, facts),
        name,
        float(settings.FETTLE_ADVISOR_PATIENCE_S),
        program=family if family and own else ", ".join(seen) or None,
        told=told,
        own=own,
    )


def packed(stretch: Stretch) -> bytes:
    """Its samples, as a row keeps them."""
    buffer = BytesIO()
    stretch.samples.write_ipc(buffer, compression="zstd")
    return buffer.getvalue()


def samples_of(payload: bytes | memoryview | None) -> pl.DataFrame:
    """The samples that a row keeps; none of none."""
    return pl.read_ipc(BytesIO(bytes(payload))) if payload else pl.DataFrame(schema={"t": pl.Float64})


def _facts(card: Gpu) -> dict[str, object]:
    return {
        "gpu": card.pk,
        "node": card.node_id,
        "job": "job",
        "index": card.index,
        "name": card.model,
        "compute_capability": card.compute_capability or None,
        "memory_kind": card.memory_kind or None,
        "power_scope": card.power_scope or None,
        **{name: getattr(card, name) for name in CONSTANTS},
    }


def _programs(process: pl.DataFrame, nodes: Mapping[int, str]) -> dict[int, str]:
    """The family of each process."""
    if not {"user", "name"} <= set(process.columns):
        return {}
    rows = process.select("gpu", "pid", "user", "name").unique("pid", keep="last").iter_rows()
    return {
        pid: job_family(f"{nodes[gpu]}/{user or '?'}/{name or '?'}", nodes[gpu]) for gpu, pid, user, name in rows if gpu in nodes
    }
