"""Which profile speaks for a job: its newest of the last week, or of the run that goes on."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import polars as pl
from django.db.models import Exists, OuterRef, QuerySet

from advisor.profiles.joined import FEATURES
from advisor.slow_columns import PROFILE, Types
from fleet.inventory.models import STILL_THERE, Process
from fleet.profiles.models import JobProfile

LASTS: Final = timedelta(days=7)
"""A profile of an earlier run of the job counts so long; one of a run that goes on as long as the run."""
WAITS: Final = timedelta(hours=1)
"""So long a process is looked for: later the kernel may have given its number to another."""
SCHEMA: Final[Types] = {"job": pl.String, **PROFILE}


def assign(at: datetime, holders: pl.DataFrame, cards: pl.DataFrame) -> int:
    """Give profiles that named a process the job that it works for; how many.

    `holders`: rows of `gpu`, `pid`, as many as a window has; `cards`: `gpu`, `node`, `job`.
    """
    came = JobProfile.objects.filter(job="", received_at__gte=at - WAITS)
    waiting = list(came.values_list("pk", "node_id", "pid"))
    if not waiting:
        return 0
    homes = cards.filter(pl.col("node").is_in(list({node for _, node, _ in waiting})) & pl.col("job").is_not_null())
    held = holders.select("gpu", "pid").join(homes.select("gpu", "node", "job"), on="gpu").unique(maintain_order=True)
    of = {(node, pid): job for _, pid, node, job in held.iter_rows()}
    count = 0
    for pk, node, pid in waiting:
        if (node, pid) in of:
            count += JobProfile.objects.filter(pk=pk, job="").update(job=of[node, pid])
    return count


def profile_features(at: datetime) -> pl.DataFrame:
    """The features of each job's profile that speaks for it at `at`: `job` and those of `advisor.profiles.joined.FEATURES`."""
    rows = [{"job": one.job, **{name: one.features.get(name) for name in FEATURES}} for one in _speaking(_newest(at), at)]
    return pl.DataFrame(rows, schema=SCHEMA, strict=False)


def of_job(job: str, at: datetime) -> JobProfile | None:
    """The profile that speaks for the job at `at`; None for none."""
    return next(iter(_speaking(_newest(at).filter(job=job), at)), None)


def _newest(at: datetime) -> QuerySet[JobProfile]:
    """Each job's newest that was there at `at`."""
    later = JobProfile.objects.filter(job=OuterRef("job"), at__lte=at)
    newer = later.filter(at__gt=OuterRef("at")) | later.filter(at=OuterRef("at"), pk__gt=OuterRef("pk"))
    return JobProfile.objects.exclude(job="").filter(at__lte=at).filter(~Exists(newer)).order_by("job").defer("summary")


def _speaking(rows: Iterable[JobProfile], at: datetime) -> list[JobProfile]:
    """Those of `rows` that are not too old: of the last week, or younger than a process of the job's program on its node."""
    found = list(rows)
    old = {one.node_id for one in found if one.at < at - LASTS}
    began: dict[tuple[int, str], datetime] = {}
    if old:
        there = Process.objects.filter(node__in=old, last_seen_at__gte=at - STILL_THERE).order_by("-first_seen_at")
        began = {(node, name): first for node, name, first in there.values_list("node_id", "name", "first_seen_at")}

    def speaks(one: JobProfile) -> bool:
        first = began.get((one.node_id, one.job.rpartition("/")[2]))
        return one.at >= at - LASTS or (first is not None and one.at >= first)

    return [one for one in found if speaks(one)]
