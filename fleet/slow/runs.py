"""Runs of jobs, brought up to now one minute after the other.

A run goes on while one of its processes is there; processes that are all others begin another one, and so does another run of a
scheduler's job. Every run is one of a row of fleet.jobs: its scheduler's, or one that job_rows.py keeps for it. A minute is counted once,
however often it is looked at. Minutes that come late are not counted: a median over hours does not need each of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from django.conf import settings
from django.db import transaction
from django.db.models import Max

from advisor.job_family import job_family
from fleet.annotations.matching import noted
from fleet.inventory.models import STALE_AFTER, Gpu, Node, Process
from fleet.jobs.models import Job
from fleet.slow import job_rows
from fleet.slow.minutes import MINUTE_S, JobMinute, Minute, Shift, read
from fleet.slow.models import Coverage, JobRun
from fleet.slow.past_runs import trim
from fleet.slow.summary import add, spread

LAG_S: Final = 20
"""A minute is looked at so long after its end: readers of the store are a flush behind."""
CATCH_UP_S: Final = 600
"""The longest that is looked back at after a pause; older minutes are left out."""
ACTIVE: Final = timedelta(minutes=5)
"""A run that was seen within this time is going on."""
SAME_PID: Final = timedelta(hours=1)
"""The kernel gives a pid anew only later."""
MOST_RUNS: Final = 200
"""Of one job; a program that crashes each minute would fill the table."""
MOST_TOLD: Final = 60
LONGEST_IMAGE: Final = 200
"""Characters of the reference of an image."""
COVERAGE_KEPT_S: Final = 30 * 86_400
KEPT_HOURS_S: Final = 2 * 86_400
"""Older hours of errors are asked for by nobody."""
_TOLD: Final = ("torch", "cuda", "engine", "launcher")
_CHANGED: Final = (
    "job_row", "last_seen", "merged_to", "pids", "gpu_ids", "gpu_model", "gpus", "told", "ooms", "parts", "minutes", "step_time_s",
    "step_time_mad_s", "samples_per_s", "energy_j_per_sample", "busy",
)  # fmt: skip
_IN_ONE_QUERY: Final = 500

Listed: TypeAlias = Mapping[tuple[int, int], tuple[Mapping[str, str], datetime]]
"""By node and pid what a process told, and when it was first seen."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The runs that go on, by job, and whether each GPU's driver is persistent."""

    runs: Mapping[str, JobRun]
    persistent: Mapping[int, bool]


@dataclass(frozen=True, slots=True)
class _Fleet:
    cards: Mapping[int, tuple[int, str, str]]  # node, model and UUID by GPU
    nodes: Mapping[int, Node]
    listed: Listed


def merge(at: datetime) -> Merged:
    """Count the minutes that ended since the last time; StoreError when the store cannot be read, with those before it counted."""
    fleet = _fleet(at)
    node_of = {gpu: card[0] for gpu, card in fleet.cards.items()}
    names = {pk: node.name for pk, node in fleet.nodes.items()}
    labels = {place: told for place, (told, _) in fleet.listed.items() if isinstance(told, dict)}
    last = int((at.timestamp() - LAG_S) // MINUTE_S) * MINUTE_S
    newest = JobRun.objects.filter(last_seen__gte=at - timedelta(days=1)).aggregate(Max("merged_to"))["merged_to__max"]
    first = max(last - CATCH_UP_S, min(newest or last, last - MINUTE_S))  # at least the newest, whatever is counted of it
    current = _current(at)
    minute = Minute()
    for start in range(first, last, MINUTE_S):
        minute = read(start, node_of, names, labels)
        with transaction.atomic():
            _merge(minute, start, current, fleet)
            Coverage.objects.update_or_create(start=start, defaults=minute.whose)
    Coverage.objects.filter(start__lt=last - COVERAGE_KEPT_S).delete()
    job_rows.end_away(at, fleet.nodes)
    return Merged({job: run for job, run in current.items() if run.last_seen >= at - ACTIVE}, minute.persistent)


def _fleet(at: datetime) -> _Fleet:
    nodes = {node.pk: node for node in Node.objects.filter(last_seen_at__gte=at - STALE_AFTER - timedelta(seconds=MINUTE_S))}
    fields = ("pk", "node_id", "model", "uuid")
    cards = Gpu.objects.filter(node__in=nodes, present=True).order_by().values_list(*fields) if nodes else ()
    rows = (
        Process.objects.filter(last_seen_at__gte=at - ACTIVE).order_by().values_list("node_id", "pid", "labels", "first_seen_at")
    )
    return _Fleet({card[0]: card[1:] for card in cards}, nodes, {(row[0], row[1]): (row[2], row[3]) for row in rows})


def _current(at: datetime) -> dict[str, JobRun]:
    """The newest run of each job that was there within the hour."""
    rows = JobRun.objects.filter(last_seen__gte=at - SAME_PID).select_related("job_row").order_by("last_seen", "pk")
    return {run.job: run for run in rows}


def _merge(minute: Minute, start: int, current: dict[str, JobRun], fleet: _Fleet) -> None:
    away = [one.job for one in minute.jobs if one.job not in current]
    for part in (away[first : first + _IN_ONE_QUERY] for first in range(0, len(away), _IN_ONE_QUERY)):
        rows = JobRun.objects.filter(job__in=part).select_related("job_row").order_by("last_seen", "pk")
        current |= {run.job: run for run in rows}
    images = _images(minute, _moment(start + MINUTE_S))
    new: list[JobRun] = []
    seen: list[JobRun] = []
    kept: list[tuple[JobRun, JobMinute]] = []
    for one in minute.jobs:
        before = current.get(one.job)
        if not one.shifts or (before is not None and before.merged_to > start):
            continue
        node = one.home if one.home is not None else fleet.cards[one.gpus[0]][0]
        for shift in one.shifts:
            run = current.get(one.job)
            if run is None or not _goes_on(run, one, shift, fleet.listed):
                run = _begun(one, node, shift, fleet)
                current[one.job] = run
                new.append(run)
            elif run.pk is not None and (not seen or seen[-1] is not run):
                seen.append(run)
            _see(run, one, shift, start, fleet)
        _count(current[one.job], one, start)
        kept.append((current[one.job], one))
    job_rows.keep(kept, new, _moment(start), fleet.cards, {pk: node.name for pk, node in fleet.nodes.items()})
    _say_images(kept, images)
    JobRun.objects.bulk_create(new, batch_size=_IN_ONE_QUERY)
    JobRun.objects.bulk_create(
        seen, batch_size=_IN_ONE_QUERY, update_conflicts=True, unique_fields=["id"], update_fields=list(_CHANGED)
    )
    for job in {run.job for run in new}:
        _trim(job)
    trim({run.program for run in new})


def _images(minute: Minute, at: datetime) -> dict[str, str]:
    """By job the image that was annotated."""
    told = noted("job", {one.job: [one.job] for one in minute.jobs}, at)
    return {job: str(notes["image"]) for job, notes in told.items() if "image" in notes}


def _say_images(kept: Iterable[tuple[JobRun, JobMinute]], images: Mapping[str, str]) -> None:
    """Note the image of each run: as it was annotated, else as its scheduler told it."""
    for run, one in kept:
        labels = run.job_row.labels if run.job_row is not None else {}
        image = images.get(one.job) or labels.get("image")
        if image:
            run.told = run.told | {"image": str(image)[:LONGEST_IMAGE]}


def _goes_on(run: JobRun, one: JobMinute, shift: Shift, listed: Listed) -> bool:
    known = run.job_row
    if one.row is not None and known is not None and known.pk != one.row and known.source != "processes":
        return False  # its scheduler has started the job again
    same = shift.pids.intersection(run.pids)
    if not same:
        return False
    if _moment(shift.first) - run.last_seen <= SAME_PID:
        return True
    return any((row := listed.get((run.node_id, pid))) is not None and row[1] <= run.last_seen for pid in same)


def _begun(one: JobMinute, node: int, shift: Shift, fleet: _Fleet) -> JobRun:
    """A run from when its agent first told of its processes, where that is known."""
    told = [fleet.listed[node, pid][1] for pid in shift.pids if (node, pid) in fleet.listed]
    first = min([*told, _moment(shift.first)])
    program = job_family(one.job, fleet.nodes[node].name)
    return JobRun(job=one.job, program=program, node_id=node, first_seen=first, last_seen=_moment(shift.last), merged_to=0)


def _see(run: JobRun, one: JobMinute, shift: Shift, start: int, fleet: _Fleet) -> None:
    _count_ooms(run, one, shift, start)
    run.last_seen = max(run.last_seen, _moment(shift.last))
    run.merged_to = start + MINUTE_S
    run.pids = sorted(shift.pids)
    run.gpu_ids = sorted({*run.gpu_ids, *one.gpus}) if len(one.gpus) < run.gpus else list(one.gpus)
    run.gpus = max(run.gpus, len(one.gpus))
    run.gpu_model = fleet.cards[one.gpus[0]][1]
    told = _told(run, fleet)
    run.told = {**_image(run.told), **told} if told else run.told


def _count_ooms(run: JobRun, one: JobMinute, shift: Shift, start: int) -> None:
    """Add what its processes' counters grew by. A process that was there before anybody counted begins with what it had."""
    told = {str(pid): counts for pid, counts in one.ooms.items() if pid in shift.pids}
    if not told:
        return
    hours = {hour: count for hour, count in run.ooms.get("hours", {}).items() if int(hour) > start - KEPT_HOURS_S}
    seen = run.ooms.get("seen", {})
    is_new = run.first_seen.timestamp() >= start
    for pid, (low, high) in told.items():
        before = seen.get(pid, 0 if is_new or seen else low)
        if high > before:
            hour = str(start // 3600 * 3600)
            hours[hour] = hours.get(hour, 0) + high - before
    run.ooms = {"hours": hours, "seen": {pid: high for pid, (_, high) in told.items()}}


def _image(told: Mapping[str, str]) -> dict[str, str]:
    return {"image": told["image"]} if "image" in told else {}


def _told(run: JobRun, fleet: _Fleet) -> dict[str, str]:
    node = fleet.nodes[run.node_id]
    found = {"driver": node.driver_version} if node.driver_version else {}
    for pid in run.pids:
        labels, _ = fleet.listed.get((run.node_id, pid), ({}, None))
        if labels:
            wanted = {name: text for name, text in labels.items() if name in _TOLD or name.startswith(("flag.", "env."))}
            return found | dict(sorted(wanted.items())[:MOST_TOLD])
    return {}


def _count(run: JobRun, one: JobMinute, start: int) -> None:
    """Add the minute's figures, but not while the run may warm up, nor of a minute in which it crashed."""
    if len(one.shifts) > 1 or start < run.first_seen.timestamp() + settings.FETTLE_ADVISOR_PATIENCE_S:
        return
    parts: dict[str, dict[str, int]] = run.parts
    for name in ("step_time_s", "samples_per_s", "energy_j_per_sample", "busy"):
        add(parts.setdefault(name, {}), getattr(one, name))
        found = spread(parts[name])
        setattr(run, name, None if found is None else found.median)
        if name == "step_time_s":
            run.step_time_mad_s = None if found is None else found.mad
    run.minutes += one.step_time_s is not None


def _trim(job: str) -> None:
    """Forget the oldest runs of the job, and what rows of processes they were of. A row whose runs went by their age stays, with its report."""
    old = list(JobRun.objects.filter(job=job).order_by("-last_seen", "-pk").values_list("pk", "job_row")[MOST_RUNS:])
    JobRun.objects.filter(pk__in=[pk for pk, _ in old]).delete()
    rows = [row for _, row in old if row is not None]
    Job.objects.filter(pk__in=rows, source="processes", ended_at__isnull=False, runs=None).delete()


def _moment(t: float) -> datetime:
    return datetime.fromtimestamp(t, UTC)
