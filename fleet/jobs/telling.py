"""What schedulers tell of their jobs, as it is written: all of a request or none, and the same told twice changes nothing."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from fleet.inventory.models import Gpu
from fleet.jobs import meant
from fleet.jobs.devices import Cards
from fleet.jobs.families import family_of
from fleet.jobs.holdings import Held, give, take_all
from fleet.jobs.hosts import nodes
from fleet.jobs.meant import run_of
from fleet.jobs.models import END_STATES, Allocation, Job
from fleet.jobs.told import TellJobError, Told, held, is_end, wrong
from fleet.jobs.turns import wait_for

__all__ = ["TellJobError", "Told", "keep", "tell"]

_KEPT: Final = (
    "source", "exit_code", "name", "user", "account", "partition", "gpus_total", "array_job_id", "restarts", "labels",
)  # fmt: skip

_FILLED: Final = tuple(name for name in _KEPT if name not in ("source", "restarts"))
"""What an end may still add to a run that has ended: neither of the others is ever empty."""
_GUESSED: Final = ("ended", "lost")
"""Ends of which nobody told how they were: whoever knows better is believed."""


def tell(told: Sequence[Told], at: datetime) -> list[Job]:
    """The runs, in the order told; TellJobError, and nothing is written, where one does not fit. `at`: the moment of telling."""
    return [job for job, _is_new in keep(told, at)]


@transaction.atomic
def keep(told: Sequence[Told], at: datetime) -> list[tuple[Job, bool]]:
    """As `tell`, each run with whether it is new."""
    wait_for((one["cluster"], one["job_id"]) for one in told)
    cards = _cards({given["node"] for one in told for given in one.get("allocations", ())})
    kept = []
    now = timezone.now()
    for one in told:
        for name, says in wrong(one, now).items():
            raise TellJobError(f"{name}: {says}")
        job, is_new = run_of(one, at)
        one = _put_back(job, one)
        of_node = held(one)
        ended_before = job.ended_at
        if _stands(job, one):
            _fill(job, one, at)
        else:
            _set(job, one, at)
        meant.over_by_next(job)
        if min(job.ended_at or job.started_at, one.get("ended_at", job.started_at)) < job.started_at:
            says = gettext("The job {job} on {cluster} would end before it starts: ended_at must not lie before started_at.")
            raise TellJobError(says.format(job=job.job_id, cluster=job.cluster))
        job.save()
        if is_new:
            meant.lose_earlier(job)
        if job.ended_at != ended_before:
            take_all(job, ended_before)
        if job.state == "pending":
            _hold_nothing(job, of_node, at)
        give(job, of_node, cards, at)
        kept.append((job, is_new))
    return kept


def _hold_nothing(job: Job, of_node: Held, at: datetime) -> None:
    """A pending job has no devices: what it held it gave back; TellJobError where it is told some."""
    if any(of_node.values()):
        says = gettext("The job {job} on {cluster} is pending, and holds no devices: send its state with them.")
        raise TellJobError(says.format(job=job.job_id, cluster=job.cluster))
    Allocation.objects.filter(job=job, until_at=None).update(until_at=max(at, job.started_at))


def _put_back(job: Job, one: Told) -> Told:
    """The same; of an end by Slurm's epilog, which counts that the run was put back, and then has the exit code 0 of nobody, just that."""
    if "started_at" in one or not is_end(one) or job.restarts is None or one.get("restarts", 0) <= job.restarts:
        return one
    told = one.copy()
    del told["restarts"]
    told.pop("exit_code", None)
    told.setdefault("state", "requeued")
    return told


def _cards(names: Iterable[str]) -> dict[str, Cards]:
    """The GPUs of each node by the name that its scheduler gives it."""
    meant = nodes(names)
    of_node: dict[int, list[Gpu]] = {}
    for gpu in Gpu.objects.filter(node__in=[node.pk for node in meant.values()]):
        of_node.setdefault(gpu.node_id, []).append(gpu)
    found = {name: meant.get(name) for name in names}
    return {name: Cards(of_node.get(node.pk, ()), node) if node is not None else Cards() for name, node in found.items()}


def _stands(job: Job, one: Told) -> bool:
    """Whether this is one more end of a run that has ended, by one who does not know its start, or who only guesses that it is lost."""
    if not is_end(one) or job.ended_at is None or job.state == "lost":
        return False
    return "started_at" not in one or one.get("state") == "lost"


def _fill(job: Job, one: Told, at: datetime) -> None:
    """Keep of it what the run lacks: how it ended, too, where nobody had told."""
    for name in _FILLED:
        if name in one and getattr(job, name) in (None, "", {}):
            setattr(job, name, one[name])
    if job.state == "ended":
        state = one.get("state", "lost")
        job.state = state if state != "lost" else _by_exit_code(job)
    job.told_at = max(job.told_at, at)
    job.family = family_of(job)


def _set(job: Job, one: Told, at: datetime) -> None:
    for name in _KEPT:
        if name in one:
            setattr(job, name, one[name])
    job.told_at = max(job.told_at, at)
    job.family = family_of(job)
    state = one.get("state")
    if is_end(one):
        job.ended_at = one.get("ended_at") or job.ended_at or max(at, job.started_at)
        was_told = job.state in END_STATES and job.state not in _GUESSED
        job.state = state or (job.state if was_told and not _follows(job, one) else _by_exit_code(job))
    elif state is not None and (job.ended_at is None or job.state == "lost"):  # an end wins over a start that comes late
        job.state, job.ended_at = state, None
        job.exit_code = one.get("exit_code")
    elif state is None and job.ended_at is not None and _follows(job, one):
        job.state = _by_exit_code(job)
    if job.state == "completed" and job.exit_code:  # told before it was known that all went well
        job.exit_code = None


def _follows(job: Job, one: Told) -> bool:
    """Whether the state says no more than the exit code, and that is told now."""
    return "exit_code" in one and job.state in ("completed", "failed", "ended")


def _by_exit_code(job: Job) -> str:
    """How it ended; of an exit code that nobody told nothing follows."""
    if job.exit_code is None:
        return "ended"
    return "failed" if job.exit_code else "completed"
