"""One run of a Slurm job as Slurm tells it, whatever command told it, and what the server is sent of it."""

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from wire.terminal import printable

STATES: Final[dict[str, str]] = {
    "PENDING": "pending",
    "REQUEUE_HOLD": "pending",
    "REQUEUE_FED": "pending",
    "SPECIAL_EXIT": "pending",
    "RESV_DEL_HOLD": "pending",
    "CONFIGURING": "running",
    "RUNNING": "running",
    "STAGE_OUT": "running",
    "STOPPED": "running",
    "RESIZING": "running",
    "SIGNALING": "running",
    "EXPEDITING": "running",
    "SUSPENDED": "suspended",
    "COMPLETED": "completed",
    "FAILED": "failed",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "failed",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "timeout",
    "DEADLINE": "timeout",
    "OUT_OF_MEMORY": "out_of_memory",
    "NODE_FAIL": "node_fail",
    "BOOT_FAIL": "node_fail",
    "POWER_UP_NODE": "running",
    "PREEMPTED": "preempted",
    "REQUEUED": "requeued",
}
"""Slurm's state, and the server's. COMPLETING stands beside the state in which the job ends: its GPUs are free when its epilogs are through."""
HAVE_GPUS: Final = ("running", "suspended")
_GPUS: Final = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_TYPED: Final = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d+)")
_IN_LIST: Final = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?::[A-Za-z_][\w.-]*)?:(\d+)(?=$|,|\()")
_ASKED: Final = re.compile(r"(?:^|,)(?:gres[:/])?gpu(?=[:=,]|$)")
_PART: Final = re.compile(r"(?:gres:)?((?:gpu|mps|shard)(?::[^,()]*)?)(\(IDX:[^()]*\))?(?:\([^()]*\))?(?=,|$)")
_COMMA: Final = re.compile(r",(?![^(]*\))")
"""One that stands in no brackets."""
_TEXT_MAX: Final = 200
NO_TOTAL: Final = "gpus_total_absent"
"""The label that says why a run has no `gpus_total`."""
WHY_NO_TOTAL: Final = "it had ended before the reconciler looked, its controller tells no count then, and no accounting has one"


class SlurmRun(Struct, frozen=True, kw_only=True):
    """One run: from `started_at` on (seconds since 1970; None: it has not begun), to `ended_at` (None: it goes on).

    `job_id` is Slurm's own number, for a prolog knows no other; `array_job_id` and `task` say which task of an array, or which component of
    a heterogeneous job it is. `gpus_total` is what Slurm allocated, whichever option asked for it; None: not told. `devices`: by node,
    Slurm's own list. `asked`: it was asked for GPUs, whatever Slurm says of those that it gave.
    """

    job_id: str
    state: str
    started_at: int | None
    ended_at: int | None = None
    exit_code: int | None = None
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    array_job_id: str = ""
    task: str = ""
    restarts: int | None = None
    gpus_total: int | None = None
    devices: Mapping[str, str] = {}
    asked: bool = False

    @property
    def holds(self) -> bool:
        """True while it has its GPUs."""
        return self.state in HAVE_GPUS and self.started_at is not None

    @property
    def has_gpus(self) -> bool:
        """True where Slurm gave it GPUs, or a part of one; where it does not say any more, whether it was asked for some."""
        return bool(self.gpus_total or self.devices or (self.asked and self.gpus_total is None))

    @property
    def is_over(self) -> bool:
        """True for a run that has ended."""
        return self.state not in ("", "pending", "running", "suspended")

    @property
    def whole(self) -> dict[str, str]:
        """`devices` of the nodes where they are whole GPUs: of shards Slurm does not say whose they are."""
        return {node: listed for node, listed in self.devices.items() if gpus_in(listed)}

    def told(self, cluster: str, started_at: float | None = None) -> dict[str, Any]:
        """The body of POST /api/v1/jobs/; `started_at`: how the server calls this run's start, where it knows the run already."""
        body: dict[str, Any] = {
            "cluster": cluster,
            "job_id": self.job_id,
            "started_at": self.started_at if started_at is None else started_at,
            "source": "slurm",
            "state": self.state,
        }
        for name in ("name", "user", "account", "partition", "array_job_id"):
            if text := shown(getattr(self, name)):  # what is left out stays as it was
                body[name] = text
        for name in ("ended_at", "exit_code", "restarts", "gpus_total"):
            if (value := getattr(self, name)) is not None:
                body[name] = value
        labels = {"slurm_id": self.task} if self.task else {}
        if self.is_over and self.has_gpus and self.gpus_total is None and not self.devices:
            labels[NO_TOTAL] = WHY_NO_TOTAL
        if labels:
            body["labels"] = labels
        if self.holds and (by_node := self.whole):
            body["allocations"] = [{"nodes": node, "devices": listed} for node, listed in by_node.items()]
        return body


def state_of(words: str | list[str]) -> str:
    """The server's word for Slurm's state: `COMPLETED`, `CANCELLED by 1000`, `COMPLETED,COMPLETING`, or a list of such; empty: not known."""
    told = words if isinstance(words, list) else words.replace("+", ",").split(",")
    names = [word.split()[0].upper() for word in told if word.strip()]
    return next((STATES[name] for name in names if name in STATES), "running" if "COMPLETING" in names else "")


def exit_code_of(code: int, signal: int) -> int:
    """As a shell tells it: the code, or 128 and the signal."""
    return 128 + signal if signal else code


def gpus_of(tres: str) -> int | None:
    """GPUs in a list of allocated resources (`cpu=8,gres/gpu=2`, with or without types); None where it tells of none.

    A cluster that accounts types alone (`gres/gpu:h200=2`) is summed over them.
    """
    if found := _GPUS.search(tres):
        return int(found[1])
    typed = _TYPED.findall(tres)
    return sum(map(int, typed)) if typed else None


def gpus_in(gres: str) -> int | None:
    """GPUs in a list of a node's devices (`gpu:h200:2(IDX:0-1)`); None where it names none."""
    found = _IN_LIST.findall(gres)
    return sum(map(int, found)) or None


def asks_gpus(tres: str) -> bool:
    """Whether a list of what a job asked for, by job, node, socket or task (`gres:gpu:1`, `gres/gpu:h200:2`), names GPUs."""
    return _ASKED.search(tres) is not None


def only_gpus(gres: str) -> str:
    """The list without what is no GPU, such as network cards; of shards without which part of which card, which no index tells."""
    found = (_PART.fullmatch(part) for part in _COMMA.split(gres))
    return ",".join(part[1] + (part[2] or "") for part in found if part)


def shown(text: str) -> str:
    """A name as the server takes it: printable and not too long; `(null)` is none."""
    return "" if text in ("(null)", "N/A", "None") else printable(text).strip()[:_TEXT_MAX]
