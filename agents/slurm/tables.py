"""Jobs from Slurm's text output: `squeue -o` with `scontrol show job -d` where there is no JSON, and `sacct` for those that are over.

A user may call a job anything, with line ends and the separator in it. So the separator is a random word, the name comes last, and what
`scontrol` tells of a number twice is not believed.
"""

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Final

from agents.slurm.runs import SlurmRun, asks_gpus, exit_code_of, gpus_in, gpus_of, only_gpus, state_of

QUEUE: Final = ("%A", "%F", "%K", "%i", "%T", "%S", "%e", "%u", "%a", "%P", "%j")
ACCOUNTED: Final = (
    "JobIDRaw", "JobID", "State", "Start", "End", "ExitCode", "AllocTRES", "User", "Account", "Partition", "NodeList", "JobName",
)  # fmt: skip
_BLOCK: Final = re.compile(r"^JobId=(\d+)[ \n]", re.M)
_HOLDS: Final = re.compile(r"^ +Nodes=(\S+) CPU_IDs=\S+ Mem=\S+ GRES=(\S*) *$", re.M)
_TRES: Final = re.compile(r"^ +(?:Alloc)?TRES=(\S+)", re.M)
_GIVEN: Final = re.compile(r"^ +JOB_GRES=(\S+)", re.M)
"""What the job was given on all of its nodes; unlike its list by node it is still told when the job is over."""
_ASKED: Final = re.compile(r"^ +TresPer(?:Job|Node|Socket|Task)=(\S+)", re.M)
_RESTARTS: Final = re.compile(r"^ +Requeue=\d+ Restarts=(\d+)", re.M)
_EXIT: Final = re.compile(r" ExitCode=(\d+):(\d+)$", re.M)


def separator() -> str:
    """A word that stands in no job's name, for no user could know it."""
    return f"\x1e{secrets.token_hex(8)}\x1e"


def queue(text: str, mark: str, details: str) -> list[SlurmRun]:
    """Runs from `squeue -h -t all -r -o` with QUEUE between `mark`s, and from `scontrol show job -d` what squeue does not print."""
    held = _details(details)
    found = []
    for number, _array, _task, called, state, start, end, user, account, partition, name in _rows(text, mark, len(QUEUE)):
        block = held.get(number, "")
        state = state_of(state)
        is_over = state not in ("", "pending", "running", "suspended")
        devices = {nodes: gpus for nodes, gres in _HOLDS.findall(block) if (gpus := only_gpus(gres))}
        tres, restarts, code = _TRES.search(block), _RESTARTS.search(block), _EXIT.search(block)
        total = gpus_of(tres[1]) if tres else None
        if total is None:
            total = _given(block)
        if total is None and devices and not any("[" in nodes or "," in nodes for nodes in devices):
            total = sum(gpus_in(gres) or 0 for gres in devices.values()) or None
        found.append(
            SlurmRun(
                job_id=number,
                state=state,
                started_at=None if state == "pending" else _time(start),
                ended_at=_time(end) if is_over else None,
                exit_code=exit_code_of(int(code[1]), int(code[2])) if code and is_over else None,
                name=name,
                user=user,
                account=account,
                partition=partition,
                array_job_id=_group(number, called),
                task=called if called != number else "",
                restarts=int(restarts[1]) if restarts else None,
                gpus_total=total,
                devices=devices,
                asked=any(map(asks_gpus, _ASKED.findall(block))),
            )
        )
    return found


def totals(details: str) -> dict[str, int]:
    """The GPUs of each job by number, from `scontrol show job -d`, for those of which it tells some."""
    return {number: total for number, block in _details(details).items() if (total := _given(block)) is not None}


def _given(block: str) -> int | None:
    found = _GIVEN.search(block)
    return gpus_in(found[1]) if found else None


def accounted(text: str, mark: str) -> list[SlurmRun]:
    """Runs from `sacct -n -X -D --parsable2` with ACCOUNTED between `mark`s: each run of a requeued job, no steps."""
    found = []
    for number, called, state, start, end, code, tres, user, account, partition, _nodes, name in _rows(
        text, mark, len(ACCOUNTED)
    ):
        begun, over = _time(start), _time(end)
        status, _, signal = code.partition(":")
        state = state_of(state)
        is_over = state not in ("", "pending", "running", "suspended") and over is not None
        found.append(
            SlurmRun(
                job_id=number,
                state=state,
                started_at=None if state == "pending" else begun,
                ended_at=over if is_over else None,
                exit_code=exit_code_of(int(status), int(signal)) if is_over and status.isdigit() and signal.isdigit() else None,
                name=name,
                user=user,
                account=account,
                partition=partition,
                array_job_id=_group(number, called),
                task=called if called != number else "",
                gpus_total=gpus_of(tres),
            )
        )
    return found


def _rows(text: str, mark: str, width: int) -> Iterator[Sequence[str]]:
    """The fields of each row. The last may hold line ends, so a row ends where the next one's number begins."""
    parts = text.removesuffix("\n").split(mark)
    row: list[str] = []
    for place, part in enumerate(parts):
        if len(row) < width - 1:
            row.append(part)
            continue
        last = place == len(parts) - 1
        name, _, following = (part, "", "") if last else part.rpartition("\n")
        if row[0].isdigit():
            yield [*row, name]
        row = [following]


def _details(text: str) -> dict[str, str]:
    """What `scontrol show job -d` says of each number; nothing of one that it seems to tell of twice."""
    starts = [*_BLOCK.finditer(text)]
    found: dict[str, str] = {}
    twice = set()
    for place, begin in enumerate(starts):
        end = starts[place + 1].start() if place + 1 < len(starts) else len(text)
        if begin[1] in found:
            twice.add(begin[1])
        found[begin[1]] = text[begin.start() : end]
    return {number: block for number, block in found.items() if number not in twice}


def _group(number: str, called: str) -> str:
    """The job of which `9_1` is a task, or `4+1` a component; empty for a job by itself."""
    group = re.match(r"(\d+)[_+]", called)
    return group[1] if group and called != number else ""


def _time(text: str) -> int | None:
    """Seconds since 1970, as SLURM_TIME_FORMAT=%s writes them; None for `Unknown` and `N/A`."""
    return int(text) if text.isdigit() and int(text) > 0 else None
