"""What is read of processes now and then, in a thread of its own: when one is first seen, once more soon, then at a steady pace.

A file system that hangs, or a process whose memory the kernel holds, costs that process its answers and no tick its time.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from agents.collectors import process_stat, procfs
from agents.worker import Worker

log = logging.getLogger(__name__)

HANG_S: Final = 30.0
MAX_HANGS: Final = 3
"""Threads that were given up; with one more, nothing is read any more."""

T = TypeVar("T")
Process: TypeAlias = tuple[int, int, str]
"""Pid, start time and user."""


@dataclass(slots=True)
class _Known(Generic[T]):
    start: int
    due: float
    reads: int = 0
    answer: T | None = None


class Rounds(Generic[T]):
    """Answers of `read`, which is called in the thread with a pid and its user, of the processes that were last asked for.

    `what` names them in the log. `is_hung` tells of a process that is never read again.
    """

    def __init__(self, proc: str, what: str, read: Callable[[int, str], T], again_s: float, refresh_s: float) -> None:
        self.hangs = 0
        self._proc, self._what, self._read = proc, what, read
        self._again_s, self._refresh_s = again_s, refresh_s
        self._known: dict[int, _Known[T]] = {}
        self._worker = Worker(f"fettle-{what}")
        self._job: _Job[T] | None = None
        self._hung: set[tuple[int, int]] = set()

    @property
    def is_busy(self) -> bool:
        """True while the thread reads."""
        return self._worker.busy

    def of(self, processes: Iterable[Process], now: float, anew: bool = False) -> dict[int, T]:
        """What is known by now of each process, by its pid; one that was not read yet is left out. Starts what is due.

        `anew`: read all of them again.
        """
        self._take()
        if anew:
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
        if due and not self._worker.busy and self.hangs <= MAX_HANGS:
            self._job = _Job(self._proc, self._what, due, self._read)
            for pid, _, _ in due:
                known = self._known[pid]
                known.due = now + (self._again_s if known.reads == 0 else self._refresh_s)
                known.reads += 1
            self._worker.start(self._job.run, lambda: None)
        return {pid: known.answer for pid, known in self._known.items() if known.answer is not None}

    def is_hung(self, pid: int, start: int) -> bool:
        """True where reading this process has hung, or nothing is read any more."""
        return self.hangs > MAX_HANGS or (pid, start) in self._hung

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._worker.close()

    def _take(self) -> None:
        """Take what the thread has found so far."""
        if self._job is None:
            return
        has_ended = not self._worker.busy
        while self._job.found:
            pid, start, answer = self._job.found.popleft()
            known = self._known.get(pid)
            if known is not None and known.start == start:
                known.answer = answer
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
        self.hangs += 1
        self._job.is_given_up = True
        for known_pid, known_start, _ in self._job.left():
            if (known := self._known.get(known_pid)) is not None and known.start == known_start:
                known.due = now
        self._job = None
        self._worker.close()
        self._worker = Worker(f"fettle-{self._what}")
        end = (
            "" if self.hangs <= MAX_HANGS else f" No {self._what} are read from now on; restart the agent once the node is well."
        )
        log.warning("Reading the %s of process %d has hung for %.0f s; it goes without.%s", self._what, pid, HANG_S, end)


class _Job(Generic[T]):
    """One round of reading; made in the loop, run in the thread."""

    def __init__(self, proc: str, what: str, processes: list[Process], read: Callable[[int, str], T]) -> None:
        self.at: tuple[int, int, float] | None = None
        self.is_given_up = False
        self.found: deque[tuple[int, int, T]] = deque()
        self._proc, self._what, self._read = proc, what, read
        self._processes = processes
        self._next = 0

    def run(self) -> None:
        for number, (pid, start, user) in enumerate(self._processes):
            if self.is_given_up:
                return
            self._next = number + 1
            self.at = (pid, start, time.monotonic())
            try:
                answer = self._read(pid, user)
            except Exception:  # a thread that dies would take every later process's answers with it
                log.exception("The %s of process %d could not be read", self._what, pid)
                continue
            if _start(self._proc, pid) == start:  # else it ended meanwhile, and these may be another's
                self.found.append((pid, start, answer))
        self.at = None

    def left(self) -> list[Process]:
        return self._processes[self._next :]


def _start(proc: str, pid: int) -> int | None:
    try:
        return process_stat.parse(procfs.read(f"{proc}/{pid}/stat")).start
    except (OSError, ValueError, IndexError):
        return None
