"""What schedulers tell of a run of a job, checked in one place, whoever tells it: the REST API, or what kubelets say."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, TypedDict

from django.utils.translation import gettext

from fleet.jobs.devices import stands_for
from fleet.jobs.holdings import Given
from fleet.jobs.models import END_STATES

AHEAD: Final = timedelta(minutes=5)
"""A time so far in the future is a clock that is wrong."""


class Told(TypedDict, total=False):
    """A start, a change or an end of one run, checked. What is left out stays as it was; without `started_at`: the newest run of the id,
    of an end the newest open one that had begun by then. Where none is open, the end of the newest stands, and only what it lacks is added.

    `started_about` tells a start by another clock than the scheduler's, a node's: several nodes of one run tell several. The newest run is
    meant where it goes on with the same `restarts` and began within ONE_START of that, or ended later than that; else a new one begins then.
    `started_at` with the same `restarts` puts such a start right, or where nobody told the run's `restarts` and its start fits no earlier run.
    An end without a start that tells more `restarts` than its run had says that the run was put back into the queue.
    """

    cluster: str
    job_id: str
    started_at: datetime
    started_about: datetime
    ended_at: datetime
    source: str
    state: str
    exit_code: int
    name: str
    user: str
    account: str
    partition: str
    gpus_total: int
    array_job_id: str
    restarts: int
    labels: dict[str, str]
    allocations: Sequence[Given]


class TellJobError(Exception):
    """What was told does not fit the runs that are known; the message says which, and what to do."""


def wrong(one: Told, now: datetime) -> dict[str, str]:
    """What of it cannot be, by field, each a sentence; `now` is this server's time. What only a run's row can tell is not looked at."""
    found = {}
    for name, moment in (
        ("started_at", one.get("started_at")), ("started_about", one.get("started_about")), ("ended_at", one.get("ended_at")),
    ):  # fmt: skip
        if moment is not None and moment > now + AHEAD:
            says = gettext("This lies more than {minutes} minutes ahead of this server's clock: check the clock that it is from.")
            found[name] = says.format(minutes=int(AHEAD.total_seconds() / 60))
    by_node = held(one)
    if one.get("state") == "pending" and any(by_node.values()):
        found["state"] = gettext("A pending job holds no devices: tell them when it starts, or send another state.")
    if one.get("state") == "completed" and one.get("exit_code"):
        found["exit_code"] = gettext("A completed job has the exit code 0: send failed, or no exit code.")
    total = sum(_fewest([name for name, shared in devices.items() if not shared]) for devices in by_node.values())
    if "gpus_total" in one and total > one["gpus_total"]:
        says = gettext(
            "gpus_total is {told}, and {total} devices are told: count all that the job was given, or mark as shared what others hold too."
        )
        found["gpus_total"] = says.format(told=one["gpus_total"], total=total)
    return found


def _fewest(names: Sequence[str]) -> int:
    """The fewest devices that the names can be: an index, a UUID and a bus id may all mean one card."""
    counts = Counter(
        "gpu" if name.startswith("gpu:") else "index" if name.isdigit() else "uuid" if "-" in name else "bus" for name in names
    )
    unnamed = sum(stands_for(name) for name in names if name.startswith("gpu:"))
    return unnamed + max((counts[kind] for kind in ("index", "uuid", "bus")), default=0)


def held(one: Told) -> dict[str, dict[str, bool]]:
    """By node its devices, each with whether it is shared. Names of hosts mean the same in capitals: a node has the first spelling."""
    found: dict[str, dict[str, bool]] = {}
    spelled: dict[str, str] = {}
    for given in one.get("allocations", ()):
        node = spelled.setdefault(given["node"].lower(), given["node"])
        found.setdefault(node, {}).update(dict.fromkeys(given["devices"], given["shared"]))
    return found


def is_end(one: Told) -> bool:
    """Whether the run is over."""
    return "ended_at" in one or one.get("state") in END_STATES
