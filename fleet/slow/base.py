"""What a job's run is measured by: its own earlier runs on as many GPUs of the same model, and runs of its program on fewer.

Earlier runs of a scheduler's job are those of its family, whatever number they had and on whatever nodes they ran."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from fleet.slow.models import JobRun
from fleet.slow.summary import Spread, weighted

ENOUGH_RUNS: Final = 3
"""Fewer are no baseline."""
NEWEST_RUNS: Final = 10
"""Older ones say little of today."""
ENOUGH_MINUTES: Final = 5
"""With reported steps, after the warm-up; a run of less is none to compare with."""
ENERGY_SPAN: Final = timedelta(days=28)
RESTART_SPAN: Final = timedelta(hours=2)
MOST_CHANGES: Final = 6
_LONGEST: Final = 60
"""Characters of one changed value."""
_IN_ONE_QUERY: Final = 500
_DAY_S: Final = 86_400.0


@dataclass(slots=True)
class Past:
    """One run as it is compared with."""

    pk: int
    job: str
    program: str
    gpu_model: str
    gpus: int
    first_seen: datetime
    last_seen: datetime
    minutes: int
    step_time_s: float | None
    step_time_mad_s: float | None
    samples_per_s: float | None
    energy_j_per_sample: float | None
    ooms: dict[str, dict[str, int]]


_FIELDS: Final = tuple(Past.__slots__)


def figures(at: datetime, runs: Mapping[str, JobRun]) -> dict[str, dict[str, Any]]:
    """The features of each run that goes on, by job: its own age, and what its past says of it."""
    by_job: dict[str, list[Past]] = defaultdict(list)
    by_program: dict[tuple[str, str], list[Past]] = defaultdict(list)
    for one in _past({run.program for run in runs.values()}):
        by_job[one.job].append(one)
        by_program[one.program, one.gpu_model].append(one)
    found: dict[str, dict[str, Any]] = {}
    newest: dict[str, int] = {}
    for job, run in runs.items():
        age_s = max((at - run.first_seen).total_seconds(), 0.0)
        found[job] = {
            "run_s": age_s,
            "run_gpu_hours": age_s / 3600 * run.gpus,
            "restarts_2h": _restarts(at, by_job[job]),
            "ooms_24h": _ooms(at, by_job[job]),
            "energy_j_per_sample": run.energy_j_per_sample,
            **_scaling(run, by_program[run.program, run.gpu_model]),
        }
        scheduled = run.job_row is not None and run.job_row.cluster != ""
        alike = _alike(run, by_program[run.program, run.gpu_model] if scheduled else by_job[job])
        found[job] |= _baseline(at, alike)
        if len(alike) >= ENOUGH_RUNS:
            newest[job] = alike[0].pk
    told = _told(newest.values())
    for job, pk in newest.items():
        found[job]["base_changes"] = changes(told.get(pk, {}), runs[job].told)
    return found


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """What differs, such as `driver 570 -> 580; torch 2.8 -> 2.9`; None where nothing does, or one of both told nothing."""
    if not before or not now:
        return None
    order = sorted({*before, *now}, key=lambda name: (name.partition(".")[0] not in ("driver", "cuda", "torch"), name))
    parts = [
        f"{_shown(name)} {before.get(name, '(none)')[:_LONGEST]} -> {now.get(name, '(none)')[:_LONGEST]}"
        for name in order
        if before.get(name) != now.get(name)
    ]
    if len(parts) > MOST_CHANGES:
        parts[MOST_CHANGES:] = ["..."]
    return "; ".join(parts) or None


def _shown(name: str) -> str:
    kind, _, rest = name.partition(".")
    return f"--{rest}" if kind == "flag" else rest if kind == "env" else name


def _past(programs: Iterable[str]) -> Iterator[Past]:
    listed = sorted(programs)
    for first in range(0, len(listed), _IN_ONE_QUERY):
        rows = JobRun.objects.filter(program__in=listed[first : first + _IN_ONE_QUERY]).order_by("-last_seen", "-pk")
        yield from (Past(*row) for row in rows.values_list(*_FIELDS))


def _told(keys: Iterable[int]) -> dict[int, dict[str, str]]:
    listed = list(keys)
    found: dict[int, dict[str, str]] = {}
    for first in range(0, len(listed), _IN_ONE_QUERY):
        found |= dict(JobRun.objects.filter(pk__in=listed[first : first + _IN_ONE_QUERY]).values_list("pk", "told"))
    return found


def _alike(run: JobRun, past: Sequence[Past]) -> list[Past]:
    """Earlier runs on as many GPUs of the same model that ran long enough, newest first."""
    return [
        one
        for one in past
        if one.pk != run.pk
        and one.first_seen < run.first_seen
        and (one.gpu_model, one.gpus) == (run.gpu_model, run.gpus)
        and one.minutes >= ENOUGH_MINUTES
        and one.step_time_s is not None
    ]


def _baseline(at: datetime, alike: Sequence[Past]) -> dict[str, Any]:
    if len(alike) < ENOUGH_RUNS:
        return {"base_runs": len(alike)}
    newest = alike[:NEWEST_RUNS]
    steps = _spread(one.step_time_s for one in newest)
    within = [one.step_time_mad_s for one in newest if one.step_time_mad_s is not None]
    energy = _spread(one.energy_j_per_sample for one in newest if at - one.last_seen <= ENERGY_SPAN)
    known = sum(one.energy_j_per_sample is not None and at - one.last_seen <= ENERGY_SPAN for one in newest)
    return {
        "base_runs": len(alike),
        "base_age_days": (at - newest[0].last_seen).total_seconds() / _DAY_S,
        "base_step_time_s": steps.median if steps else None,
        # Runs that are alike to a hair do not make a run's own noise a regression.
        "base_step_time_mad_s": max([steps.mad, *([median(within)] if within else [])]) if steps else None,
        "base_energy_j_per_sample": energy.median if energy and known >= ENOUGH_RUNS else None,
        "base_energy_mad": energy.mad if energy and known >= ENOUGH_RUNS else None,
    }


def _spread(values: Iterable[float | None]) -> Spread | None:
    return weighted((value, 1) for value in values if value is not None)


def _restarts(at: datetime, past: Sequence[Past]) -> int:
    """Runs that began lately, but for the first that is known: it started nothing anew."""
    begun = sorted(one.first_seen for one in past)
    return sum(first > at - RESTART_SPAN for first in begun[1:])


def _ooms(at: datetime, past: Sequence[Past]) -> int | None:
    """Errors of GPU memory that its runs reported within a day, right to an hour; None where none of them reports any."""
    since = at.timestamp() - _DAY_S
    told = [one.ooms["hours"] for one in past if one.ooms and one.last_seen.timestamp() > since]
    return sum(count for hours in told for hour, count in hours.items() if int(hour) + 3600 > since) if told else None


def _scaling(run: JobRun, past: Sequence[Past]) -> dict[str, Any]:
    """Speed a GPU over that of the program's runs on the fewest GPUs of the model (PL-4); nothing where it never ran on fewer."""
    known = [one for one in past if one.samples_per_s and one.minutes >= ENOUGH_MINUTES and 0 < one.gpus < run.gpus]
    if not known:
        return {}
    fewest = min(one.gpus for one in known)
    each = median([one.samples_per_s / fewest for one in known if one.gpus == fewest and one.samples_per_s][:NEWEST_RUNS])
    return {
        "scaling_reference_gpus": fewest,
        "base_samples_per_s_1gpu": each if fewest == 1 else None,
        "scaling_efficiency": run.samples_per_s / run.gpus / each if run.samples_per_s else None,
    }
