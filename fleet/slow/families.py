"""A job's run beside the earlier ones of its family: what pages and the API show of its baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from django.db.models import Q

from fleet.jobs.models import Job
from fleet.slow import changed
from fleet.slow.base import scaling
from fleet.slow.baselines import MEASURES, Baseline, baseline
from fleet.slow.models import JobRun
from fleet.slow.past_runs import Family, Past, alike, as_past, past, told_of

CLOCKS: Final = timedelta(minutes=5)
"""A run may seem to begin so long before its job: a node's clock is not the scheduler's."""

Difference: TypeAlias = tuple[str, str, str]
"""What it is, its value before, its value since."""


@dataclass(frozen=True, slots=True)
class Compared:
    """`before`: the runs that are alike, oldest first. `measures`: the baselines of its figures; none where too few runs tell them.

    `differences`: by the two runs what is not the same, for all pairs that the baselines name.
    """

    run: Past
    before: Sequence[Past]
    measures: tuple[Baseline, ...]
    differences: Mapping[tuple[int, int], Sequence[Difference]]
    scaling_efficiency: float | None
    scaling_reference_gpus: int | None


def run_of(job: Job) -> JobRun | None:
    """The newest run of the job's program; None where no telemetry was seen of it.

    A job that was put back into the queue has the run before under the same name: what is another row's run is not this one's.
    """
    runs = JobRun.objects.filter(job=job.target, first_seen__gte=job.started_at - CLOCKS)
    runs = runs.filter(Q(job_row=job) | Q(job_row=None) | Q(job_row__source="processes")).select_related("job_row")
    if job.ended_at is not None:
        runs = runs.filter(first_seen__lte=job.ended_at)
    return runs.order_by("-first_seen", "-pk").first()


def of_run(run: JobRun, at: datetime) -> Compared:
    """The run beside the earlier ones of its family."""
    families = past({run.program}).get(run.program, {})
    now = as_past(run)
    others = [one for runs in families.values() for one in runs if one.gpu_model == run.gpu_model]
    return compared(now, families.get(now.family, ()), at, scaling(now, others))


def of_family(program: str, at: datetime) -> list[tuple[Family, list[Past], Compared]]:
    """By GPUs and their model the newest runs, oldest first, and the newest of them beside those before; most runs first."""
    found = [(family, runs, compared(runs[-1], runs, at)) for family, runs in past({program}).get(program, {}).items()]
    return sorted(found, key=lambda row: (-len(row[1]), row[0]))


def compared(now: Past, runs: Sequence[Past], at: datetime, scales: Mapping[str, float | None] | None = None) -> Compared:
    """A run beside those of `runs` that are alike."""
    before = alike(now, runs)
    measures = tuple(found for measure in MEASURES if (found := baseline(measure, now, before, at)) is not None)
    pairs = {(one.last.pk, one.first.pk) for base in measures for one in base.levels}
    pairs |= {
        (base.last_good.pk, base.first_bad.pk) for base in measures if base.first_bad is not None and base.last_good is not None
    }
    fewest = (scales or {}).get("scaling_reference_gpus")
    return Compared(
        now, before, measures, _differences(pairs),
        (scales or {}).get("scaling_efficiency"), int(fewest) if fewest is not None else None,
    )  # fmt: skip


def _differences(pairs: set[tuple[int, int]]) -> dict[tuple[int, int], Sequence[Difference]]:
    told = told_of(pk for pair in pairs for pk in pair)
    where = changed.places(gpu for _, gpus in told.values() for gpu in gpus)
    whole = {pk: {**words, **changed.placed(gpus, where)} for pk, (words, gpus) in told.items()}
    return {
        (before, since): [(changed.shown(name), old, new) for name, old, new in changed.different(whole[before], whole[since])]
        for before, since in pairs
        if before in whole and since in whole
    }
