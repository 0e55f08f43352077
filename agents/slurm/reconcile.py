"""One round of the reconciler: what the server knows of a cluster's jobs beside what Slurm says now, and what the server must be told.

A prolog or an epilog may never have run, or not have reached the server; a job may be put back into the queue, and its number be used
again. Slurm is right in all of it. The server names a run by its start, which a prolog tells by its node's clock and Slurm to the
second: so runs are matched, and keep the start by which the server knows them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from agents.slurm.runs import NO_TOTAL, SlurmRun, gpus_in

SKEW_S: Final = 60.0
"""A node's clock may be so far behind the controller's: a prolog runs after its job's start, by its own clock perhaps before."""
PUT_BACK_S: Final = 5.0
"""A run that was put back begins again no sooner: Slurm waits until its credentials have expired, 2 minutes as a rule."""
_UNKNOWN: Final = ("", "pending")


class Known(Struct, frozen=True):
    """A run as the server has it: `held` counts the devices that it holds now, by node; times are seconds since 1970.

    Of a run on many devices the server names the first: then `held` is empty, and the totals alone are known.
    `restarts` is None where nobody told it.
    """

    job_id: str
    started_at: float
    ended_at: float | None
    state: str
    restarts: int | None
    gpus_total: int | None
    held: Mapping[str, int]
    all_known: bool
    held_total: int | None = None
    nodes_total: int | None = None
    says_why: bool = False
    """Its label says why it has no `gpus_total`."""


def merged(queued: Iterable[SlurmRun], accounted: Iterable[SlurmRun]) -> list[SlurmRun]:
    """Each run once: as the controller tells it, and as accounting does where it does not: a run that is over may have its GPUs there."""
    found = {(run.job_id, run.started_at): run for run in accounted}
    for run in queued:
        booked = found.get((run.job_id, run.started_at))
        total = booked.gpus_total if booked is not None and run.gpus_total is None else run.gpus_total
        found[run.job_id, run.started_at] = replace(run, gpus_total=total)
    return [run for run in found.values() if run.state not in _UNKNOWN and run.started_at is not None]


def match(known: Iterable[Known], runs: Iterable[SlurmRun]) -> tuple[dict[tuple[str, int | None], Known], list[Known]]:
    """For each run (number and start) the server's own of it, and those of the server that Slurm does not tell of.

    The nearest starts belong together, of runs that were put back into the queue as often.
    """
    by_number: dict[str, list[SlurmRun]] = {}
    for run in runs:
        if run.started_at is not None:
            by_number.setdefault(run.job_id, []).append(run)
    rows = sorted(known, key=lambda one: one.started_at)
    pairs = [
        (abs(one.started_at - run.started_at), place, run)
        for place, one in enumerate(rows)
        for run in by_number.get(one.job_id, ())
        if run.started_at is not None and _may_be(run, run.started_at, one)
    ]
    found: dict[tuple[str, int | None], Known] = {}
    taken = set()
    for _apart, place, run in sorted(pairs, key=lambda pair: pair[:2]):
        if place not in taken and (run.job_id, run.started_at) not in found:
            taken.add(place)
            found[run.job_id, run.started_at] = rows[place]
    return found, [one for place, one in enumerate(rows) if place not in taken]


def _may_be(run: SlurmRun, started_at: int, one: Known) -> bool:
    """Whether the server's run can be Slurm's: it began then, or later and before its end."""
    if one.started_at == started_at:
        return True
    if run.restarts is not None and one.restarts is not None and run.restarts != one.restarts:
        return False
    behind = PUT_BACK_S if run.restarts and one.restarts is None else SKEW_S  # the run before must not be taken for it
    return started_at <= one.started_at + behind and (run.ended_at is None or one.started_at <= run.ended_at + SKEW_S)


def to_tell(
    cluster: str,
    runs: Sequence[SlurmRun],
    known: Sequence[Known],
    at: float,
    since: float,
    *,
    restarts: Mapping[str, int] | None = None,
    ended: Collection[tuple[str, float]] = (),
    is_complete: bool = True,
) -> list[dict[str, Any]]:
    """The bodies for POST /api/v1/jobs/, oldest start first; `known`: all that ran since `since`.

    `restarts`: how often each number of the queue was put back, of those that wait, too. `ended`: runs (number and start) whose end Slurm
    told: they were over before a person had them put back. `is_complete`: what Slurm did not tell of is not there any more.
    """
    found, alone = match(known, runs)
    told = []
    for run in runs:
        one = found.get((run.job_id, run.started_at))
        if one is None and (not run.has_gpus or (run.ended_at is not None and run.ended_at < since)):
            continue
        body = run.told(cluster, None if one is None else one.started_at)
        if run.ended_at is not None and one is not None:
            body["ended_at"] = max(
                run.ended_at, one.started_at
            )  # a job of a second ends before its prolog's clock says that it began
        if one is not None and _has_all(one, run):
            body.pop("allocations", None)
        if one is not None:
            _say_why(body, one)
        told.append(body)
    for one in alone if is_complete else ():
        if (one.job_id, one.started_at) in ended:
            continue
        if _was_put_back(one, (restarts or {}).get(one.job_id, 0)):
            told.append(_over(cluster, one, runs, at, "requeued"))
        elif one.ended_at is None:
            told.append(_over(cluster, one, runs, at, "lost"))
    return sorted(told, key=lambda body: float(body["started_at"]))


def _say_why(body: dict[str, Any], one: Known) -> None:
    """Leave the reason out where the server knows the count; take it back where it is told now."""
    if one.gpus_total is not None and NO_TOTAL in body.get("labels", {}):
        del body["labels"][NO_TOTAL]
        if not body["labels"] and not one.says_why:
            del body["labels"]
    elif one.says_why and "gpus_total" in body:
        body.setdefault("labels", {})


def _has_all(one: Known, run: SlurmRun) -> bool:
    """True where the server knows by name as many devices as Slurm gave: a prolog told their UUIDs, which Slurm's own numbers are not."""
    if not one.all_known:
        return False
    if one.held_total is not None:
        told = [gpus_in(listed) for listed in run.whole.values()]
        is_single = not any("[" in node or "," in node for node in run.whole)
        total = sum(count or 0 for count in told) if is_single else run.gpus_total
        return one.held_total == total and (not is_single or one.nodes_total == len(told))
    if any("[" in node or "," in node for node in run.whole):
        return sum(one.held.values()) == run.gpus_total
    held = {node.lower(): total for node, total in one.held.items()}
    return held == {node.lower(): gpus_in(listed) for node, listed in run.whole.items()}


def _was_put_back(one: Known, restarts: int) -> bool:
    """Whether a run that Slurm does not tell of any more ended so: its number was put back more often since.

    An epilog of it tells exit code 0, for nobody's exit code was another: that is no success.
    """
    if restarts == 0 or (one.restarts is not None and one.restarts >= restarts):
        return False
    return one.ended_at is None or one.state in ("completed", "ended", "lost")


def _over(cluster: str, one: Known, runs: Sequence[SlurmRun], at: float, state: str) -> dict[str, Any]:
    """The end of a run that Slurm has forgotten: as it was told, else where its number began again, else now."""
    if one.ended_at is not None:
        at = one.ended_at
    later = [run.started_at for run in runs if run.job_id == one.job_id and (run.started_at or 0) > one.started_at]
    ended_at = max(min([at, *(float(start) for start in later if start is not None)]), one.started_at)
    return {
        "cluster": cluster, "job_id": one.job_id, "started_at": one.started_at, "source": "slurm", "state": state, "ended_at": ended_at,
    }  # fmt: skip
