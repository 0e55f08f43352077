"""What schedulers' allocations say of the GPUs and jobs of a look: to whom each GPU is given, since when, and whether it is used."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import polars as pl
from django.db.models import Max

from advisor.slow_columns import ALLOCATED, Types
from fleet.findings.windows import Look
from fleet.inventory.models import Gpu
from fleet.jobs.holding import Held
from fleet.slow.models import JobRun

STILL_TOLD: Final = timedelta(days=7)
"""Labels travel when they change: who was told to have a GPU has it until something else is told."""
_IN_ONE_QUERY: Final = 500


def of_gpus(at: datetime, seen: Look) -> pl.DataFrame:
    """`gpu` and ALLOCATED of its scope, of the GPUs that somebody is told to have: by a scheduler, else by dcgm-exporter's labels."""
    given = Gpu.objects.filter(labels_told_at__gte=at - STILL_TOLD, present=True).exclude(labels={}).order_by()
    rows: dict[int, dict[str, Any]] = {
        pk: {"allocated_to": whom}
        for pk, labels in given.values_list("pk", "labels")
        if (whom := labels.get("pod") or labels.get("hpc_job"))
    }
    for gpu, one in seen.whose.scheduled.items():
        foreign = None if gpu in seen.blind else len(seen.whose.foreign.get(gpu, ()))
        rows[gpu] = {
            "allocated_to": one.target,
            "allocated_s": (at - one.from_at).total_seconds(),
            "job_family": one.family,
            "foreign_processes": foreign,
        }
    for gpu in seen.whose.shared:
        rows[gpu] = {"gpu_shared": True}
    return _framed("gpu", rows)


def of_jobs(at: datetime, seen: Look) -> pl.DataFrame:
    """`job` and ALLOCATED of its scope, of the jobs that a scheduler gave GPUs to."""
    gpus: dict[str, list[int]] = defaultdict(list)
    holds: dict[str, Held] = {}
    for gpu, one in seen.whose.scheduled.items():
        gpus[one.target].append(gpu)
        if one.target not in holds or one.from_at < holds[one.target].from_at:
            holds[one.target] = one
    unused = {target: one for target, one in holds.items() if target in seen.unused}
    lasts = _last_used(unused)
    numbers = _slurm_numbers(unused)
    rows: dict[str, dict[str, Any]] = {}
    for target, one in holds.items():
        idle_s: float | None = None
        if target in unused:
            idle_s = (at - max(one.from_at, lasts.get(target, one.from_at))).total_seconds()
        elif seen.blind.isdisjoint(gpus[target]):
            idle_s = 0.0
        rows[target] = {
            "allocated_gpus": len(gpus[target]),
            "allocated_idle_s": idle_s,
            "given_by": one.source if one.source in ("slurm", "kubernetes") else None,
            "given_slurm_job": numbers.get(target),
        }
    return _framed("job", rows)


def _last_used(unused: Mapping[str, Held]) -> dict[str, datetime]:
    """When a process of each of these runs was seen last; a job that never had one is left out."""
    lasts: dict[str, datetime] = {}
    of = {one.job: target for target, one in unused.items()}
    for part in _parts(list(of)):
        rows = JobRun.objects.filter(job_row__in=part).order_by().values_list("job_row").annotate(Max("last_seen"))
        lasts |= {of[pk]: last for pk, last in rows}
    return lasts


def _slurm_numbers(unused: Mapping[str, Held]) -> dict[str, str]:
    """What scancel calls these jobs, where Slurm runs them."""
    return {target: target.rpartition("/")[2] for target, one in unused.items() if one.source == "slurm"}


def _framed(scope: str, rows: Mapping[Any, Mapping[str, Any]]) -> pl.DataFrame:
    kinds: Types = {scope: pl.Int64 if scope == "gpu" else pl.String, **ALLOCATED[scope]}
    return pl.DataFrame([{scope: key, **row} for key, row in rows.items()], schema=kinds, strict=False)


def _parts(keys: list[int]) -> list[list[int]]:
    return [keys[first : first + _IN_ONE_QUERY] for first in range(0, len(keys), _IN_ONE_QUERY)]
