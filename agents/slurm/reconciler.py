"""The reconciler's rounds: asks Slurm and the server, and tells the server what it lacks. No round harms the next."""

import json
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final, Protocol

from msgspec import Struct

from agents.rest import RestError
from agents.slurm import cluster
from agents.slurm.commands import SlurmError
from agents.slurm.reconcile import Known, match, merged, to_tell
from agents.slurm.runs import NO_TOTAL, SlurmRun

log = logging.getLogger(__name__)

JOBS: Final = "/api/v1/jobs/"
MOST: Final = 500
"""Jobs in one request."""
AGAIN_S: Final = 600.0
"""Each round looks at so much of what the one before saw."""
FIRST_S: Final = 3600.0
"""The first round looks back so far."""


class Server(Protocol):
    """What a round needs of the REST API."""

    def pages(self, path: str, query: Mapping[str, str]) -> Iterable[Any]:
        """Every row of a list."""

    def post(self, path: str, body: object) -> Any:
        """The answer to a POST."""


class Round(Struct):
    """What a round did: jobs that Slurm told of, jobs that the server was told of, and refused."""

    seen: int
    told: int
    refused: int


class Reconciler:
    """Keeps the server's jobs of one cluster as Slurm has them. What was told is not told again until it changes."""

    def __init__(self, name: str, server: Server, as_text: bool = False, now: Callable[[], float] = time.time) -> None:
        self.cluster = name
        self._server = server
        self._queue = cluster.Queue(as_text)
        self._now = now
        self._last: float | None = None
        self._told: dict[tuple[str, float], str] = {}
        self._ended: set[tuple[str, float]] = set()
        self._keeps_accounts = True

    def bodies(self) -> tuple[int, list[dict[str, Any]], set[tuple[str, float]]]:
        """How many runs Slurm tells of, what the server must be told, and which runs it holds for running; nothing is sent."""
        at = self._now()
        since = (self._last if self._last is not None else at - FIRST_S) - AGAIN_S
        query = {"cluster": self.cluster, "source": "slurm", "since": datetime.fromtimestamp(since, timezone.utc).isoformat()}
        known = [known_of(row) for row in self._server.pages(JOBS, query)]
        queued = self._queue.runs()  # after the server was asked: what it knew then, Slurm must know now
        _found, alone = match([one for one in known if one.ended_at is None], queued)
        accounts = self._accounts(since, {one.job_id for one in alone})
        runs = merged(queued, accounts or ())
        self._last = at
        restarts = {run.job_id: run.restarts or 0 for run in queued}
        bodies = to_tell(
            self.cluster, runs, known, at, since, restarts=restarts, ended=self._ended, is_complete=accounts is not None
        )
        self._ended &= {(one.job_id, one.started_at) for one in known}
        self._ended |= {_key(body) for body in bodies if "ended_at" in body and body["state"] not in ("requeued", "lost")}
        return len(runs), bodies, {(one.job_id, one.started_at) for one in known if one.ended_at is None}

    def _accounts(self, since: float, numbers: Collection[str]) -> Sequence[SlurmRun] | None:
        """Accounting's runs, none where the cluster keeps none; None where it does not answer: then nothing is lost yet."""
        if not self._keeps_accounts:
            return ()
        try:
            found = cluster.accounted(since, numbers)
        except SlurmError as error:
            log.warning("Accounting does not answer, so ends that the controller forgot wait: %s", error)
            return None
        if found is None:
            self._keeps_accounts = False
            log.warning(
                "This cluster keeps no accounting that sacct can read: the end of a job that its controller forgot is not known"
            )
        return found or ()

    def round(self) -> Round:
        """One round; SlurmError or RestError where it could not be made, and then the next does its work."""
        last = self._last
        try:
            seen, bodies, running = self.bodies()
            waiting = [body for body in bodies if self._is_news(body, running)]
            refused = 0
            for first in range(0, len(waiting), MOST):
                refused += self._tell(waiting[first : first + MOST])
        except (SlurmError, RestError):
            self._last = last
            raise
        kept = {_key(body) for body in bodies}
        self._told = {key: said for key, said in self._told.items() if key in kept}
        return Round(seen, len(waiting) - refused, refused)

    def _is_news(self, body: dict[str, Any], running: set[tuple[str, float]]) -> bool:
        """True for what was not told yet, and for an end that the server does not know of."""
        return self._told.get(_key(body)) != _said(body) or ("ended_at" in body and _key(body) in running)

    def _tell(self, bodies: Sequence[dict[str, Any]]) -> int:
        """Send; how many were refused. A request is kept whole or not at all, so one that is refused is sent again job by job."""
        try:
            self._server.post(JOBS, list(bodies))
        except RestError as error:
            if error.status not in (400, 409, 413, 422):
                raise
            if len(bodies) > 1:
                half = len(bodies) // 2
                return self._tell(bodies[:half]) + self._tell(bodies[half:])
            log.warning("The server refuses job %s: %s", bodies[0]["job_id"], error)
            self._told[_key(bodies[0])] = _said(bodies[0])  # it would say the same in a minute
            return 1
        self._told.update({_key(body): _said(body) for body in bodies})
        return 0


def known_of(row: Mapping[str, Any]) -> Known:
    """A row of GET /api/v1/jobs/."""
    held: dict[str, int] = {}
    named = row.get("allocations", ())
    still = [one for one in named if one["until_at"] is None]
    is_whole = row.get("allocations_total", len(named)) == len(named)  # of a large job the server names the first ones
    for one in still if is_whole else ():
        held[one["node_name"]] = held.get(one["node_name"], 0) + 1
    ended_at = row["ended_at"]
    return Known(
        job_id=str(row["job_id"]),
        started_at=_seconds(row["started_at"]),
        ended_at=None if ended_at is None else _seconds(ended_at),
        state=str(row["state"]),
        restarts=None if row["restarts"] is None else int(row["restarts"]),
        gpus_total=row["gpus_total"],
        held=held,
        all_known=(bool(still) and all(one["gpu"] is not None for one in still))
        if is_whole
        else row["held_total"] > 0 and row["held_unknown_total"] == 0,
        held_total=None if is_whole else row["held_total"],
        nodes_total=None if is_whole else row["held_nodes_total"],
        says_why=NO_TOTAL in (row.get("labels") or {}),
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _key(body: Mapping[str, Any]) -> tuple[str, float]:
    return body["job_id"], float(body["started_at"])


def _said(body: Mapping[str, Any]) -> str:
    return json.dumps(body, sort_keys=True)
