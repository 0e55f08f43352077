"""What verdicts came to: GPU-hours and money that runs since the change did not take, and each rule's record at this site."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Final

from django.db.models import Q

from fleet.slow.models import JobRun
from fleet.verdicts.models import Verification

COUNTED: Final = timedelta(days=30)
"""So long after a change its runs count: later they would not be what they were without it."""
MEASURED: Final = ("helped", "no_effect", "worse")


def recount(now: datetime) -> int:
    """Bring the GPU-hours of the verdicts up to `now`; how many changed.

    A run that took h GPU-hours at r times the speed would have taken r times h: (r - 1) h is recovered, less than zero where it was
    slower. Runs that are forgotten stay counted. Of a service the time of an answer is no time of GPUs: its throughput alone counts.
    """
    rows = list(
        Verification.objects.filter(verdict__in=("helped", "worse"), ratio__isnull=False, applied_at__gte=now - COUNTED)
        .exclude(~Q(measure="served_per_s"), scope="service")
        .defer("before_samples", "after_samples")
    )
    families: dict[str, list[JobRun]] = defaultdict(list)
    for run in JobRun.objects.filter(program__in={row.family for row in rows if row.family}):
        families[run.program].append(run)
    changed = []
    for row in rows:
        hours = _hours(row, families[row.family], now)
        recovered = (row.ratio - 1) * hours if row.ratio is not None else 0.0
        if row.recovered_gpu_hours is None or abs(recovered) > abs(row.recovered_gpu_hours):
            row.recovered_gpu_hours = recovered
            changed.append(row)
    Verification.objects.bulk_update(changed, ["recovered_gpu_hours"])
    return len(changed)


def _hours(row: Verification, runs: Iterable[JobRun], now: datetime) -> float:
    """GPU-hours of the runs since the change; of a change to a GPU or node the time since."""
    if row.scope != "job":
        return max(0.0, (now - row.applied_at).total_seconds()) / 3600 * row.gpus
    mine = [run for run in runs if run.first_seen >= row.applied_at - timedelta(seconds=60) and run.gpu_model == row.gpu_model]
    return sum((run.last_seen - run.first_seen).total_seconds() / 3600 * run.gpus for run in mine)


@dataclass(frozen=True, slots=True)
class Record:
    """What the advice of one rule came to at this site. `ratio`: the median of what was measured; None where nothing was."""

    rule: str
    helped: int = 0
    no_effect: int = 0
    worse: int = 0
    cannot_tell: int = 0
    waiting: int = 0
    ratio: float | None = None
    recovered_gpu_hours: float | None = None

    @property
    def measured(self) -> int:
        """How many times it could be told."""
        return self.helped + self.no_effect + self.worse


def records(rules: Iterable[str] | None = None) -> list[Record]:
    """The record of each rule (None: of all) whose advice was ever applied, the most GPU-hours first."""
    rows = Verification.objects.order_by() if rules is None else Verification.objects.order_by().filter(rule__in=set(rules))
    verdicts: dict[str, Counter[str]] = defaultdict(Counter)
    ratios: dict[str, list[float]] = defaultdict(list)
    hours: dict[str, list[float]] = defaultdict(list)
    for rule, verdict, ratio, recovered in rows.values_list("rule", "verdict", "ratio", "recovered_gpu_hours"):
        verdicts[rule][verdict or "waiting"] += 1
        if verdict in MEASURED and ratio is not None:
            ratios[rule].append(ratio)
        if recovered is not None:
            hours[rule].append(recovered)
    found = [
        Record(
            rule,
            **{name: counts[name] for name in (*MEASURED, "cannot_tell", "waiting")},
            ratio=median(ratios[rule]) if ratios[rule] else None,
            recovered_gpu_hours=sum(hours[rule]) if hours[rule] else None,
        )
        for rule, counts in verdicts.items()
    ]
    return sorted(found, key=lambda one: (-(one.recovered_gpu_hours or 0.0), -one.measured, one.rule))
