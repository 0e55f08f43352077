"""What is read of a process every quarter of a minute, in a thread of its own: limits of its CPU and its shared memory.

A new reading is a line in `_read`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from agents.collectors import cpu_limits, shared_memory
from agents.collectors.process_readers import Answers
from agents.collectors.rounds import Process, Rounds
from agents.device import SLOW_S

NAMES: Final = (
    "cpu_periods_total",
    "cpu_throttled_periods_total",
    "cpu_quota_cores",
    "cpus_allowed",
    "shm_used_bytes",
    "shm_size_bytes",
)
_NOT_YET: Final[Answers] = dict.fromkeys(NAMES, "no_previous")
_HANGS: Final[Answers] = dict.fromkeys(NAMES, "timeout")


class SlowProcesses:
    """These readings of the processes it was last asked for, as they were at most SLOW_S and one reading ago."""

    def __init__(self, proc: Path, sys: Path) -> None:
        self._proc, self._sys = str(proc), str(sys)
        self._rounds: Rounds[Answers] = Rounds(self._proc, "limits", self._read, SLOW_S, SLOW_S)
        self._answers: dict[int, Answers] = {}

    def ask(self, processes: Iterable[Process], now: float) -> None:
        """Take what was read by `now`, and start what is due."""
        self._answers = self._rounds.of(processes, now)

    def of(self, pid: int, start: int) -> Answers:
        """Of one process that was asked for."""
        if self._rounds.is_hung(pid, start):
            return _HANGS
        return self._answers.get(pid, _NOT_YET)

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._rounds.close()

    def _read(self, pid: int, _user: str) -> Answers:
        return (
            cpu_limits.quota(self._proc, self._sys, pid)
            | cpu_limits.allowed(self._proc, self._sys, pid)
            | shared_memory.of_process(f"{self._proc}/{pid}")
        )
