"""What one minute of telemetry says of each job: which processes ran it, on which GPUs, and its figures."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import polars as pl

from fleet.store import clock

MINUTE_S: Final = 60
JobsOf: TypeAlias = Callable[[pl.DataFrame, Mapping[int, str]], dict[int, str]]
"""Names the job that holds each GPU, of rows of processes and the name of each GPU's node: as the judge names jobs."""

_PROCESS: Final = ("name", "user", "gpu_mem_bytes", "step_time_s", "samples_per_s", "ooms_total")
_GPU: Final = ("power_w", "gr_engine_active", "gpu_util_pct", "persistence_mode")
_LONGEST: Final = 300
"""Characters of a job's name."""


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

    @property
    def energy_j_per_sample(self) -> float | None:
        """Energy of its GPUs over the samples that it worked through."""
        return self.power_w / self.samples_per_s if self.power_w is not None and self.samples_per_s else None


@dataclass(frozen=True, slots=True)
class Minute:
    """All jobs of a minute, and of each GPU that said so whether its driver is persistent."""

    jobs: tuple[JobMinute, ...]
    persistent: Mapping[int, bool]


def read(start: int, node_names: Mapping[int, str], jobs_of: JobsOf) -> Minute:
    """The minute that begins at `start`; `node_names` has the GPUs that count. StoreError when the store cannot be read."""
    end = start + MINUTE_S
    gpu = clock.window("gpu", start, end, None, _GPU).rename({"entity": "gpu"})
    process = clock.window("process", start, end, None, _PROCESS).rename({"entity": "gpu", "ts": "t"})
    process = process.with_columns(pl.col("t").cast(pl.Float64)).filter(pl.col("gpu").is_in(list(node_names)))
    means = gpu.group_by("gpu").agg(
        pl.col("power_w").mean(),
        pl.coalesce(pl.col("gr_engine_active").mean(), pl.col("gpu_util_pct").mean() / 100).alias("busy"),
        pl.col("persistence_mode").drop_nulls().last(),
    )
    told = means.filter(pl.col("persistence_mode").is_not_null())
    persistent = dict(zip(told["gpu"].to_list(), (mode == 1 for mode in told["persistence_mode"].to_list()), strict=True))
    held = jobs_of(process, node_names)
    if not held:
        return Minute((), persistent)
    return Minute(tuple(_jobs(process, means, held, node_names)), persistent)


def _jobs(process: pl.DataFrame, means: pl.DataFrame, held: Mapping[int, str], node_names: Mapping[int, str]) -> list[JobMinute]:
    places = pl.DataFrame(
        [(gpu, job, node_names[gpu]) for gpu, job in held.items()],
        schema={"gpu": pl.Int64, "job": pl.String, "node_name": pl.String},
        orient="row",
    )
    whose = pl.concat_str(
        "node_name", pl.lit("/"), _or_unknown("user"), pl.lit("/"), _or_unknown("name"), ignore_nulls=False
    ).str.slice(0, _LONGEST)
    mine = process.join(places, on="gpu").filter(whose == pl.col("job"))
    pids = mine.group_by("job", "pid").agg(
        pl.col("t").min().alias("first"), pl.col("t").max().alias("last"), pl.col("samples_per_s").mean()
    )
    shifts = _shifts(pids)
    samples = _by_job(pids.filter(pl.col("samples_per_s").is_not_null()), pl.col("samples_per_s").sum())
    steps = _by_job(mine.filter(pl.col("step_time_s").is_not_null()), pl.col("step_time_s").median())
    cards = places.join(means, on="gpu", how="left")
    busy = _by_job(cards, pl.col("busy").mean())
    power = _by_job(cards, pl.when(pl.col("power_w").is_not_null().all()).then(pl.col("power_w").sum()))
    ooms: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    counter = pl.col("ooms_total")
    counted = (
        mine.filter(counter.is_not_null()).group_by("job", "pid").agg(counter.min().alias("low"), counter.max().alias("high"))
    )
    for job, pid, low, high in counted.iter_rows():
        ooms[job][pid] = int(low), int(high)
    gpus: dict[str, list[int]] = defaultdict(list)
    for card, job in held.items():
        gpus[job].append(card)
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
