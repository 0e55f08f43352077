"""What one minute of telemetry says of each job: which processes ran it, on which GPUs, and its figures."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import polars as pl

from fleet.jobs.attribution import LONGEST, Attribution, Labels, attribute
from fleet.jobs.holding import ended_within, holders
from fleet.store import clock

MINUTE_S: Final = 60
BUSY: Final = 0.005
"""An engine that works more than this is at work: an idle context has 0.0001."""

_PROCESS: Final = ("name", "user", "gpu_mem_bytes", "step_time_s", "samples_per_s", "ooms_total")
_GPU: Final = ("power_w", "gr_engine_active", "gpu_util_pct", "persistence_mode")


@dataclass(frozen=True, slots=True)
class Shift:
    """Processes of one job whose times overlap: one run of it, from `first` to `last` second within the minute."""

    pids: frozenset[int]
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class JobMinute:
    """One job in one minute; figures are None where nothing was told."""

    job: str
    gpus: tuple[int, ...]
    shifts: tuple[Shift, ...]
    step_time_s: float | None
    samples_per_s: float | None
    power_w: float | None
    busy: float | None
    ooms: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By pid, of those that told it, the counter of errors of GPU memory at the first and at the last sample."""
    row: int | None = None
    """The key of the job's row, where a scheduler told of it."""
    cluster: str = ""
    """The cluster that a process named, of a job that its scheduler has not told of."""
    home: int | None = None
    """The node of the processes in `shifts`."""

    @property
    def energy_j_per_sample(self) -> float | None:
        """Energy of its GPUs over the samples that it worked through."""
        return self.power_w / self.samples_per_s if self.power_w is not None and self.samples_per_s else None


@dataclass(frozen=True, slots=True)
class Minute:
    """All jobs of a minute, of each GPU that said so whether its driver is persistent, and how much of the minute is whose."""

    jobs: tuple[JobMinute, ...] = ()
    persistent: Mapping[int, bool] = field(default_factory=dict)
    whose: Mapping[str, float] = field(default_factory=dict)
    """By field of the model Coverage."""


def read(start: int, node_of: Mapping[int, int], node_names: Mapping[int, str], labels: Labels) -> Minute:
    """The minute that begins at `start`; `node_of` has the GPUs that count. StoreError when the store cannot be read."""
    end = start + MINUTE_S
    gpu = clock.window("gpu", start, end, None, _GPU).rename({"entity": "gpu"}).filter(pl.col("gpu").is_in(list(node_of)))
    process = clock.window("process", start, end, None, _PROCESS).rename({"entity": "gpu", "ts": "t"})
    process = process.with_columns(pl.col("t").cast(pl.Float64)).filter(pl.col("gpu").is_in(list(node_of)))
    means = gpu.group_by("gpu").agg(
        pl.col("power_w").mean(),
        pl.coalesce(pl.col("gr_engine_active").mean(), pl.col("gpu_util_pct").mean() / 100).alias("busy"),
        pl.col("persistence_mode").drop_nulls().last(),
    )
    told = means.filter(pl.col("persistence_mode").is_not_null())
    persistent = dict(zip(told["gpu"].to_list(), (mode == 1 for mode in told["persistence_mode"].to_list()), strict=True))
    at = datetime.fromtimestamp(end, UTC)
    ended = ended_within(datetime.fromtimestamp(start, UTC), at)
    found = attribute(at, process, node_of, node_names, holders(at, processes=False), labels, ended, name_ended=True)
    jobs = _jobs(process, means, found, node_of, node_names) if found.jobs else []
    return Minute(tuple(jobs), persistent, _whose(means, found))


def _whose(means: pl.DataFrame, found: Attribution) -> dict[str, float]:
    given = found.scheduled.keys() | found.shared
    counts: dict[str, float] = dict.fromkeys(("scheduled", "processes", "unknown"), 0)
    busy_s = dict.fromkeys(counts, 0.0)
    for gpu, busy in means.select("gpu", "busy").iter_rows():
        if gpu in given:
            kind = "scheduled"
        elif gpu in found.jobs:
            kind = "processes"
        elif busy is not None and busy > BUSY:
            kind = "unknown"
        else:
            continue
        counts[kind] += 1
        busy_s[kind] += (busy or 0.0) * MINUTE_S
    return {"present": means.height, **counts, **{f"busy_{kind}_s": seconds for kind, seconds in busy_s.items()}}


def _jobs(
    process: pl.DataFrame, means: pl.DataFrame, found: Attribution, node_of: Mapping[int, int], node_names: Mapping[int, str]
) -> list[JobMinute]:
    places = pl.DataFrame(
        [(gpu, job, node_of[gpu], node_names[node_of[gpu]], gpu in found.members) for gpu, job in found.jobs.items()],
        schema={"gpu": pl.Int64, "job": pl.String, "node": pl.Int64, "node_name": pl.String, "named": pl.Boolean},
        orient="row",
    )
    own = pl.DataFrame(
        [(gpu, pid, True) for gpu, pids in found.members.items() for pid in pids],
        schema={"gpu": pl.Int64, "pid": pl.Int64, "own": pl.Boolean},
        orient="row",
    )
    whose = pl.concat_str(
        "node_name", pl.lit("/"), _or_unknown("user"), pl.lit("/"), _or_unknown("name"), ignore_nulls=False
    ).str.slice(0, LONGEST)
    process = process.with_columns(pl.col("pid").cast(pl.Int64))
    mine = process.join(places, on="gpu").join(own, on=["gpu", "pid"], how="left")
    mine = mine.filter(pl.when("named").then(pl.col("own").fill_null(False)).otherwise(whose == pl.col("job")))
    # A pid says who it is on its node alone: of a job on many, those of the first stand for all.
    home = pl.col("node") == pl.col("node").min().over("job")
    pids = mine.group_by("job", "node", "pid").agg(
        pl.col("t").min().alias("first"), pl.col("t").max().alias("last"), pl.col("samples_per_s").mean()
    )
    shifts = _shifts(pids.filter(home))
    homes = dict(pids.group_by("job").agg(pl.col("node").min()).iter_rows())
    samples = _by_job(pids.filter(pl.col("samples_per_s").is_not_null()), pl.col("samples_per_s").sum())
    steps = _by_job(mine.filter(pl.col("step_time_s").is_not_null()), pl.col("step_time_s").median())
    cards = places.join(means, on="gpu", how="left")
    busy = _by_job(cards, pl.col("busy").mean())
    power = _by_job(cards, pl.when(pl.col("power_w").is_not_null().all()).then(pl.col("power_w").sum()))
    ooms: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    counter = pl.col("ooms_total")
    counted = (
        mine.filter(counter.is_not_null())
        .group_by("job", "node", "pid")
        .agg(counter.min().alias("low"), counter.max().alias("high"))
        .filter(home)
    )
    for job, _, pid, low, high in counted.iter_rows():
        ooms[job][pid] = int(low), int(high)
    gpus: dict[str, list[int]] = defaultdict(list)
    clusters: dict[str, str] = {}
    for card, job in found.jobs.items():
        gpus[job].append(card)
        if card in found.members and job not in found.rows:
            clusters[job] = job.partition("/")[0]
    return [
        JobMinute(
            job,
            tuple(sorted(members)),
            shifts.get(job, ()),
            steps.get(job),
            samples.get(job),
            power.get(job),
            busy.get(job),
            ooms.get(job, {}),
            found.rows.get(job),
            clusters.get(job, ""),
            homes.get(job),
        )
        for job, members in sorted(gpus.items())
    ]


def _or_unknown(name: str) -> pl.Expr:
    return pl.when(pl.col(name).str.len_bytes() > 0).then(pl.col(name)).otherwise(pl.lit("?"))


def _by_job(rows: pl.DataFrame, value: pl.Expr) -> dict[str, float | None]:
    return dict(rows.group_by("job").agg(value.alias("value")).iter_rows())


def _shifts(pids: pl.DataFrame) -> dict[str, tuple[Shift, ...]]:
    """By job its processes in groups that overlap, oldest first: a program that crashes and starts anew has several."""
    found: dict[str, list[Shift]] = defaultdict(list)
    rows = pids.select("job", "pid", "first", "last").sort("job", "first", "pid")
    for job, pid, first, last in rows.iter_rows():
        before = found[job][-1] if found[job] else None
        if before is None or first > before.last:
            found[job].append(Shift(frozenset({pid}), first, last))
        else:
            found[job][-1] = Shift(before.pids | {pid}, before.first, max(before.last, last))
    return {job: tuple(shifts) for job, shifts in found.items()}
