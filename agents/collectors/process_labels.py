"""What processes are, in words: read in a thread of its own when a process is first seen, and again every few minutes.

A file system that hangs, or a process whose memory the kernel holds, costs that process its labels and no tick its time.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from agents.collectors import cgroup, command_line, environment, loaded, process_stat, procfs, visible_gpus
from agents.worker import Worker
from wire.labels import MAX_LABEL, MAX_LABELS, is_label
from wire.messages import GpuFacts
from wire.variables import SET

log = logging.getLogger(__name__)

REFRESH_S: Final = 300.0
AGAIN_S: Final = 15.0
"""A process that has just begun sets up its environment and loads its libraries; it is read once more after this time."""
HANG_S: Final = 30.0
MAX_HANGS: Final = 3
"""Threads that were given up; with one more, labels are no longer read."""
_ANCESTORS: Final = 8
_MAX_BYTES: Final = 1 << 20
_IDENTITY: Final = ("container", "pod", "pod_name", "slurm_job", "slurm_step", "pid_in_namespace")
_SHUT_IN: Final = {"container", "pod", "slurm_job", "pid_in_namespace"}
"""Labels of processes that may see fewer GPUs than the node has."""

Process: TypeAlias = tuple[int, int, str]
"""Pid, start time and user."""


@dataclass(slots=True)
class _Known:
    start: int
    due: float
    reads: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    not_permitted: frozenset[str] = frozenset()


class ProcessLabels:
    """Labels of the processes it was last asked for."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = str(proc)
        self._known: dict[int, _Known] = {}
        self._worker = Worker("fettle-labels")
        self._began = 0.0
        self._job: _Job | None = None
        self._hung: set[tuple[int, int]] = set()
        self._hangs = 0
        self._gpus: Sequence[GpuFacts] = ()

    @property
    def not_permitted(self) -> frozenset[str]:
        """Files of /proc/PID that this user may not read, of any of the processes."""
        return frozenset[str]().union(*(known.not_permitted for known in self._known.values()))

    def of(self, processes: Iterable[Process], now: float, gpus: Sequence[GpuFacts] = ()) -> dict[int, dict[str, str]]:
        """What is known by now of each process, by its pid; one that was not read yet is left out. Starts what is due.

        `gpus`: those of the node; when they change, all is read again, for what a process may use is told by them.
        """
        self._take()
        if gpus is not self._gpus:
            self._gpus = gpus
            for one in self._known.values():
                one.due = now
        wanted = list(processes)
        pids = {pid for pid, _, _ in wanted}
        for pid in self._known.keys() - pids:
            del self._known[pid]
        due: list[Process] = []
        for pid, start, user in wanted:
            known = self._known.get(pid)
            if known is None or known.start != start:
                known = self._known[pid] = _Known(start, now)
            if known.due <= now and (pid, start) not in self._hung:
                due.append((pid, start, user))
        self._watch(now)
        if due and not self._worker.busy and self._hangs <= MAX_HANGS:
            self._job, self._began = _Job(self._proc, due, gpus), now
            for pid, _, _ in due:
                known = self._known[pid]
                known.due = now + (AGAIN_S if known.reads == 0 else REFRESH_S)
                known.reads += 1
            self._worker.start(self._job.run, lambda: None)
        return {pid: known.labels for pid, known in self._known.items() if known.labels}

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._worker.close()

    def _take(self) -> None:
        """Take what the thread has found so far."""
        if self._job is None:
            return
        has_ended = not self._worker.busy
        while self._job.found:
            pid, start, labels, denied = self._job.found.popleft()
            known = self._known.get(pid)
            if known is not None and known.start == start:
                known.labels, known.not_permitted = labels, denied
        if has_ended:
            self._job = None

    def _watch(self, now: float) -> None:
        """Give up a thread that hangs at one process, and never ask that process again."""
        if self._job is None or not self._worker.busy or self._job.at is None:
            return
        pid, start, since = self._job.at
        if time.monotonic() - since < HANG_S:
            return
        self._hung.add((pid, start))
        self._hangs += 1
        self._job.is_given_up = True
        for known_pid, known_start, _ in self._job.left():
            if (known := self._known.get(known_pid)) is not None and known.start == known_start:
                known.due = now
        self._job = None
        self._worker.close()
        self._worker = Worker("fettle-labels")
        end = "" if self._hangs <= MAX_HANGS else " No labels are read from now on; restart the agent once the node is well."
        log.warning("Reading what process %d is has hung for %.0f s; it goes without labels.%s", pid, HANG_S, end)


class _Job:
    """One round of reading; made in the loop, run in the thread."""

    def __init__(self, proc: str, processes: list[Process], gpus: Sequence[GpuFacts]) -> None:
        self.at: tuple[int, int, float] | None = None
        self.is_given_up = False
        self.found: deque[tuple[int, int, dict[str, str], frozenset[str]]] = deque()
        self._proc = proc
        self._processes = processes
        self._gpus = gpus
        self._next = 0

    def run(self) -> None:
        for number, (pid, start, user) in enumerate(self._processes):
            if self.is_given_up:
                return
            self._next = number + 1
            self.at = (pid, start, time.monotonic())
            try:
                labels, denied = read(self._proc, pid, user, self._gpus)
            except Exception:  # a thread that dies would take every later process's labels with it
                log.exception("The labels of process %d could not be read", pid)
                continue
            if _start(self._proc, pid) == start:  # else it ended meanwhile, and these may be another's
                self.found.append((pid, start, labels, frozenset(denied)))
        self.at = None

    def left(self) -> list[Process]:
        return self._processes[self._next :]


def _start(proc: str, pid: int) -> int | None:
    try:
        return process_stat.parse(procfs.read(f"{proc}/{pid}/stat")).start
    except (OSError, ValueError, IndexError):
        return None


def read(proc: str, pid: int, user: str, gpus: Sequence[GpuFacts] = ()) -> tuple[dict[str, str], set[str]]:
    """Labels of one process, and which of its files may not be read. What has no answer is left out; nothing is raised."""
    base = f"{proc}/{pid}"
    denied: set[str] = set()
    found: dict[str, str] = {}

    def ask(file: str, answer: Callable[[], dict[str, str]]) -> None:
        try:
            found.update(answer())
        except PermissionError:
            denied.add(file)
        except (OSError, ValueError, IndexError):
            return  # it ended meanwhile, or this kernel does not have the file

    ask("maps", lambda: loaded.labels(base))
    ask("cmdline", lambda: _started_by(proc, pid, user))
    content = b""

    def variables() -> dict[str, str]:
        nonlocal content
        content = _whole(f"{base}/environ")
        return environment.labels(content, user)

    ask("environ", variables)
    ask("cgroup", lambda: cgroup.labels(_whole(f"{base}/cgroup").decode(errors="replace")))  # outranks the environment
    ask("status", lambda: _pid_inside(_whole(f"{base}/status"), pid))
    if content:  # an empty one is that of a process which has just ended
        may_use = visible_gpus.label(environment.of_cuda(content), gpus, bool(found.keys() & _SHUT_IN))
        found |= {} if may_use is None else {"visible_gpus": may_use}
    return _bounded(found), denied


def _started_by(proc: str, pid: int, user: str) -> dict[str, str]:
    """Labels of the command line, and where it names no engine or launcher, of the nearest ancestors that do.

    Serving engines rename their workers, and torchrun's workers are plain scripts.
    """
    own: dict[str, str] = {}
    current = pid
    for generation in range(_ANCESTORS):
        base = f"{proc}/{current}"
        try:
            words = _whole(f"{base}/cmdline").decode(errors="replace").rstrip("\0").split("\0")
            parent = process_stat.parse(procfs.read(f"{base}/stat")).parent
        except (OSError, ValueError, IndexError):
            if generation == 0:
                raise
            break
        seen = command_line.describe(words, user)
        if generation == 0 or "engine" in seen or "launcher" in seen:
            own = seen | own
        if parent <= 1:
            break
        current = parent
    return own


def _pid_inside(status: bytes, pid: int) -> dict[str, str]:
    line = next((line for line in status.split(b"\n") if line.startswith(b"NSpid:")), b"")
    inside = line.split()[1:]
    return {"pid_in_namespace": str(int(inside[-1]))} if len(inside) > 1 and int(inside[-1]) != pid else {}


def _whole(path: str) -> bytes:
    """A file of /proc of any size up to a megabyte."""
    with open(path, "rb", buffering=0) as file:
        parts = []
        left = _MAX_BYTES
        while left > 0 and (part := file.read(min(left, 65536))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


def _bounded(found: dict[str, str]) -> dict[str, str]:
    """At most MAX_LABELS, who it is first of all, then the versions, then flags, then variables, those last that are told of without a value."""
    order = {name: rank for rank, name in enumerate((*_IDENTITY, "visible_gpus", "engine", "launcher", "torch", "cuda"))}
    later = {name: 100 if name.startswith("flag.") else 300 if found[name] == SET else 200 for name in found}
    names = sorted(found, key=lambda name: (order.get(name, later[name]), name))
    fit = [name for name in names if is_label(name) and len(found[name]) <= MAX_LABEL]
    return {name: found[name] for name in fit[:MAX_LABELS]}


def with_described(labels: dict[str, str], described: dict[str, str]) -> dict[str, str]:
    """Both, at most MAX_LABELS: those of `labels` that come last make room."""
    return dict(list(labels.items())[: MAX_LABELS - len(described)]) | described
