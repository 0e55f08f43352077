"""The features of runs that go on: their own age, and what the earlier runs of their family say of them.

A family is what one user runs by one name on as many GPUs of the same model, whatever node it is on and whatever number it bears. Runs on
other numbers of GPUs say only how it scales (advisor/planners/scaling.py).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from advisor.planners.scaling import weak_efficiency
from fleet.slow import changed
from fleet.slow.baselines import ENERGY, NEWEST_RUNS, STEP_TIME, Baseline, baseline, spread_within
from fleet.slow.models import JobRun
from fleet.slow.past_runs import ENOUGH_MINUTES, Past, Told, alike, as_past, past, told_of

RESTART_SPAN: Final = timedelta(hours=2)
_IN_ONE_QUERY: Final = 500
_DAY_S: Final = 86_400.0


def figures(at: datetime, runs: Mapping[str, JobRun]) -> dict[str, dict[str, Any]]:
    """The features of each run that goes on, by job."""
    of_program = past({run.program for run in runs.values()})
    restarts, ooms = _restarts(at, runs), _ooms(at, runs)
    found: dict[str, dict[str, Any]] = {}
    pairs: dict[str, dict[str, tuple[int, int]]] = {}
    for job, run in runs.items():
        age_s = max((at - run.first_seen).total_seconds(), 0.0)
        now = as_past(run)
        families = of_program.get(run.program, {})
        before = alike(now, families.get(now.family, ()))
        found[job] = {
            "run_s": age_s,
            "run_gpu_hours": age_s / 3600 * run.gpus,
            "restarts_2h": restarts.get(job, 0),
            "ooms_24h": ooms.get(job),
            "energy_j_per_sample": run.energy_j_per_sample,
            "base_runs": len(before),
            **scaling(now, [one for runs_of in families.values() for one in runs_of if one.gpu_model == run.gpu_model]),
        }
        step, energy = baseline(STEP_TIME, now, before, at), baseline(ENERGY, now, before, at)
        found[job] |= _step(at, step, before) | _energy(energy)
        pairs[job] = {name: pair for name, base in (("", step), ("energy_", energy)) if (pair := _pair(base, now))}
    _say_changes(found, pairs, runs)
    return found


def _step(at: datetime, base: Baseline | None, before: Sequence[Past]) -> dict[str, Any]:
    if base is None:
        return {}
    within = spread_within(before[-NEWEST_RUNS:])
    sure = base.drift if base.drift is not None and base.drift.is_sure else None
    return {
        "base_age_days": (at - base.newest.last_seen).total_seconds() / _DAY_S,
        "base_step_time_s": base.median,
        # Runs that are alike to a hair do not make a run's own noise a regression.
        "base_step_time_mad_s": max(base.mad, within or 0.0),
        "base_drift_ratio": sure.ratio if sure else None,
        "base_drift_low_ratio": sure.low_ratio if sure else None,
        "base_drift_days": sure.days if sure else None,
        **_first_bad(base, "base_"),
    }


def _energy(base: Baseline | None) -> dict[str, Any]:
    if base is None:
        return {}
    return {
        "base_energy_j_per_sample": base.median,
        "base_energy_mad": base.mad,
        **_first_bad(base, "base_energy_"),
    }


def _first_bad(base: Baseline, prefix: str) -> dict[str, Any]:
    if base.first_bad is None:
        return {}
    return {
        f"{prefix}first_bad_run": base.first_bad.job,
        f"{prefix}first_bad_at": f"{base.first_bad.first_seen:%Y-%m-%d %H:%M} UTC",
        f"{prefix}bad_runs": base.bad_runs,
    }


def _pair(base: Baseline | None, now: Past) -> tuple[int, int] | None:
    """The runs between which what changed is asked for: the last good one and the first bad, else the newest one before and this."""
    if base is None:
        return None
    if base.first_bad is not None and base.last_good is not None:
        return base.last_good.pk, base.first_bad.pk
    return base.newest.pk, now.pk


def _say_changes(
    found: dict[str, dict[str, Any]], pairs: Mapping[str, Mapping[str, tuple[int, int]]], runs: Mapping[str, JobRun]
) -> None:
    """`base_changes` and `base_energy_changes`, and whether a step's work is another, of all jobs at once."""
    told: dict[int, Told] = {run.pk: (run.told, run.gpu_ids) for run in runs.values()}
    told |= told_of({pk for of_job in pairs.values() for pair in of_job.values() for pk in pair} - told.keys())
    where = changed.places(gpu for _, gpus in told.values() for gpu in gpus)
    for job, of_job in pairs.items():
        for name, (before, now) in of_job.items():
            old, new = ({**told[pk][0], **changed.placed(told[pk][1], where)} if pk in told else {} for pk in (before, now))
            found[job][f"base_{name}changes"] = changed.changes(old, new)
            found[job][f"base_{name}other_work"] = changed.is_other_work(old, new)


def _restarts(at: datetime, jobs: Iterable[str]) -> dict[str, int]:
    """By job the runs that began lately, but for the first that is known: it started nothing anew."""
    begun: dict[str, int] = defaultdict(int)
    listed = sorted(jobs)
    for part in (listed[first : first + _IN_ONE_QUERY] for first in range(0, len(listed), _IN_ONE_QUERY)):
        lately = JobRun.objects.filter(job__in=part, first_seen__gt=at - RESTART_SPAN).order_by().values_list("job", flat=True)
        for job in lately:
            begun[job] += 1
        earlier = JobRun.objects.filter(job__in=list(begun.keys() & set(part)), first_seen__lte=at - RESTART_SPAN)
        for job in (begun.keys() & set(part)) - set(earlier.order_by().values_list("job", flat=True).distinct()):
            begun[job] -= 1
    return begun


def _ooms(at: datetime, jobs: Iterable[str]) -> dict[str, int]:
    """By job the errors of GPU memory that its runs reported within a day, right to an hour; none of one whose runs report none."""
    since = at.timestamp() - _DAY_S
    found: dict[str, int] = {}
    listed = sorted(jobs)
    for part in (listed[first : first + _IN_ONE_QUERY] for first in range(0, len(listed), _IN_ONE_QUERY)):
        rows = JobRun.objects.filter(job__in=part, last_seen__gt=at - timedelta(seconds=_DAY_S)).exclude(ooms={})
        for job, ooms in rows.order_by().values_list("job", "ooms"):
            lately = sum(count for hour, count in ooms["hours"].items() if int(hour) + 3600 > since)
            found[job] = found.get(job, 0) + lately
    return found


def scaling(run: Past, others: Sequence[Past]) -> dict[str, Any]:
    """Speed a GPU over that of the program's runs on the fewest GPUs of the model (PL-4); nothing where it never ran on fewer."""
    known = [
        one for one in others if one.is_good and one.samples_per_s and one.minutes >= ENOUGH_MINUTES and 0 < one.gpus < run.gpus
    ]
    if not known:
        return {}
    fewest = min(one.gpus for one in known)
    each = median([one.samples_per_s / fewest for one in known if one.gpus == fewest and one.samples_per_s][-NEWEST_RUNS:])
    return {
        "scaling_reference_gpus": fewest,
        "base_samples_per_s_1gpu": each if fewest == 1 else None,
        "scaling_efficiency": weak_efficiency(run.samples_per_s, each, run.gpus) if run.samples_per_s else None,
    }
