"""The rows of fleet.jobs that runs belong to: linked where a scheduler told of the job, made and ended where only processes show it."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias, TypeVar

from django.db.models import Max

from fleet.jobs.models import Allocation, Job
from fleet.slow.minutes import JobMinute
from fleet.slow.models import JobRun

AWAY: Final = timedelta(minutes=5)
"""A job that only processes show has ended when none of them was there for so long on a node that reports."""
SILENT: Final = timedelta(hours=1)
"""On a node that is silent it counts as ended after this time."""
_IN_ONE_QUERY: Final = 500
_Key = TypeVar("_Key", int, str)

Cards: TypeAlias = Mapping[int, tuple[int, str, str]]
"""Node, model and UUID by GPU."""


def keep(
    seen: Sequence[tuple[JobRun, JobMinute]], new: Sequence[JobRun], start: datetime, cards: Cards, node_names: Mapping[int, str]
) -> None:
    """Give each run the row of its job: those that a minute from `start` on saw, and all that began in it (`new`, not stored yet).

    Of jobs that only processes show the rows are made, and what they hold is brought up to the minute.
    """
    of = {run.job: one for run, one in seen}
    runs = list({id(run): run for run in (*new, *(run for run, _ in seen))}.values())
    _link([(run, of[run.job]) for run in runs])
    alone = [run for run in new if run.job_row is None]
    if alone:
        _make(alone, of, start)
        _end(_earlier(alone, {run.job_row_id for run, _ in seen}))
    held = [(run.job_row, one) for run, one in seen if run.job_row is not None and run.job_row.source == "processes"]
    _hold(held, start, cards, node_names)


def end_away(at: datetime, reporting: Collection[int]) -> None:
    """End the jobs that only processes show and that stayed away, at the time when they were seen last."""
    runs = JobRun.objects.filter(job_row__source="processes", job_row__ended_at=None, last_seen__lt=at - AWAY)
    rows = runs.order_by("last_seen").values_list("job_row", "node_id", "last_seen")
    _end({row: last for row, node, last in rows if node in reporting or last < at - SILENT})


def _link(runs: Sequence[tuple[JobRun, JobMinute]]) -> None:
    """Put the scheduler's rows in; one that was made before its scheduler told of the job goes."""
    told: dict[int, Job] = {}
    for part in _parts({one.row for _, one in runs if one.row is not None}):
        told |= Job.objects.in_bulk(part)
    replaced = set()
    for run, one in runs:
        row = told.get(one.row) if one.row is not None else None
        if row is None or run.job_row_id == row.pk:
            continue
        if run.job_row is not None and run.job_row.source == "processes":
            replaced.add(run.job_row.pk)
        run.job_row, run.program = row, row.family
    if replaced:
        Job.objects.filter(pk__in=replaced).delete()


def _make(runs: Iterable[JobRun], of: Mapping[str, JobMinute], start: datetime) -> None:
    """A row for each of the runs, the one that is there where it was made before."""
    named: dict[tuple[str, str, datetime], JobRun] = {}
    rows = []
    for run in runs:
        cluster = of[run.job].cluster
        user, _, program = run.program.partition("/") if not cluster else ("", "", run.job)
        row = Job(
            cluster=cluster,
            job_id=run.job.removeprefix(f"{cluster}/") if cluster else run.job,
            started_at=run.first_seen,
            source="processes",
            name=program[:200],
            user="" if user == "?" else user[:100],
            family=run.program,
            told_at=start,
        )
        named[row.cluster, row.job_id, row.started_at] = run
        rows.append(row)
    Job.objects.bulk_create(rows, batch_size=_IN_ONE_QUERY, ignore_conflicts=True)
    for part in _parts({row.job_id for row in rows}):
        for row in Job.objects.filter(job_id__in=part, started_at__gte=min(row.started_at for row in rows)):
            run_of = named.get((row.cluster, row.job_id, row.started_at))
            if run_of is not None:
                run_of.job_row = row


def _earlier(begun: Sequence[JobRun], newest: Collection[int | None]) -> dict[int, datetime]:
    """The rows of the same jobs that are open and not the newest, and when their processes were seen last."""
    lasts = {run.job_row_id: run.last_seen for run in begun if run.job_row_id is not None}
    found = []
    for part in _parts({run.job_row.job_id for run in begun if run.job_row is not None}):
        rows = Job.objects.filter(source="processes", ended_at=None, job_id__in=part)
        found += [pk for pk in rows.values_list("pk", flat=True) if pk not in newest]
    for before in _parts({pk for pk in found if pk not in lasts}):
        lasts |= dict(JobRun.objects.filter(job_row__in=before).order_by().values_list("job_row").annotate(Max("last_seen")))
    return {pk: lasts[pk] for pk in found if pk in lasts}


def _end(lasts: Mapping[int, datetime]) -> None:
    """End these jobs and give back what they hold, each at its time."""
    for pk, last in lasts.items():
        Job.objects.filter(pk=pk, ended_at=None).update(ended_at=last, state="ended")
        Allocation.objects.filter(job=pk, until_at=None, from_at__gt=last).delete()
        Allocation.objects.filter(job=pk, until_at=None).update(until_at=last)


def _hold(held: Sequence[tuple[Job, JobMinute]], start: datetime, cards: Cards, node_names: Mapping[int, str]) -> None:
    """Let the jobs hold what they held in the minute, and nothing else; one that was taken for ended goes on."""
    back = [row.pk for row, _ in held if row.ended_at is not None]
    keys = [row.pk for row, _ in held]
    opened: dict[int, dict[int | None, int]] = defaultdict(dict)
    for part in _parts(keys):
        Job.objects.filter(pk__in=part).update(told_at=start)
        rows = Allocation.objects.filter(job__in=part, until_at=None).order_by().values_list("job_id", "gpu_id", "pk")
        for job, gpu, pk in rows:
            opened[job][gpu] = pk
    for part in _parts(back):
        Job.objects.filter(pk__in=part).update(ended_at=None, state="running")
    new, over = [], []
    for row, one in held:
        over += [pk for gpu, pk in opened[row.pk].items() if gpu not in one.gpus]
        for gpu in set(one.gpus) - opened[row.pk].keys():
            node, _, uuid = cards[gpu]
            fresh = not opened[row.pk] and row.pk not in back
            new.append(
                Allocation(
                    job=row,
                    node_id=node,
                    node_name=node_names[node],
                    gpu_id=gpu,
                    device=uuid,
                    from_at=row.started_at if fresh else start,
                )
            )
    Allocation.objects.bulk_create(new, batch_size=_IN_ONE_QUERY, ignore_conflicts=True)
    for part in _parts(over):
        Allocation.objects.filter(pk__in=part).update(until_at=start)


def _parts(keys: Iterable[_Key]) -> Iterable[list[_Key]]:
    listed = sorted(keys)
    return (listed[first : first + _IN_ONE_QUERY] for first in range(0, len(listed), _IN_ONE_QUERY))
