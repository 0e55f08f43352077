"""The processes that hold a GPU: who they are and what they and their descendants do.

The name is the program's: its `comm`, or for an interpreter the script's file name or module. Nothing else of a
command line is kept here; `process_labels.py` tells more, in the words of `wire/labels.py`.
"""

import os
import pwd
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from agents.collectors import process_stat, procfs
from agents.collectors.descendants import SCAN_S, Descendants, Tree
from agents.collectors.interpreters import INTERPRETER, script
from agents.collectors.numa import Numa
from agents.collectors.process_readers import READERS, Answers
from agents.collectors.process_stat import Stat
from agents.collectors.rounds import Process
from agents.collectors.slow_processes import SlowProcesses
from wire.messages import Cell
from wire.metrics import Reported, accept, of

PROCESS_METRICS: Final = tuple(of("process"))
_NAMES: Final = tuple(metric.name for metric in PROCESS_METRICS)
_REPORTED: Final = tuple(metric.name for metric in PROCESS_METRICS if isinstance(metric.source, Reported))
_HZ: Final = os.sysconf("SC_CLK_TCK")
_FIRST_NAMESPACE: Final = "pid:[4026531836]"
"""The kernel's own number of the namespace that every process of the node is in (PROC_PID_INIT_INO)."""
_DEVICES: Final = ("/dev/nvidia", "/dev/dxg", "/dev/kfd", "/dev/dri/", "/dev/davinci")
_MAX_FILES: Final = 4096
MAX_PROCESSES: Final = 256
"""More processes than this hold no GPU on a sane node; the rest is left out of a frame that must stay small."""


class Reports(Protocol):
    """What programs tell of themselves."""

    def of(self, pid: int, start: int, now: float) -> Answers:
        """What this process told since the call before; nothing where it tells nothing."""


@dataclass(slots=True)
class _Seen:
    """What is known of one process; `start` tells it from a later one of the same pid."""

    start: int
    name: str
    user: str
    descendants: Descendants
    ticks: int
    at: float
    main_ticks: int | None = None
    cores: float | None = None
    """What it used since the call before."""


@dataclass(slots=True)
class Reading:
    """One process now: values and reasons in the order of PROCESS_METRICS. `start` is None where it cannot be read."""

    pid: int
    name: str
    user: str
    values: list[Cell]
    reasons: list[str | None]
    start: int | None = field(default=None)


class ProcessCollector:
    """Reads the processes it is asked for from a /proc given as an argument."""

    def __init__(
        self, proc: Path = Path("/proc"), reports: Reports | None = None, sys: Path = Path("/sys"), scan_s: float = SCAN_S
    ) -> None:
        self._proc = str(proc)
        self.cores_used: float | str = 0.0
        """Cores that the processes asked for and their descendants used between the last two calls, or why that is not known."""
        self._slow = SlowProcesses(proc, sys)
        self._numa = Numa(sys)
        self._reports = reports
        self._seen: dict[int, _Seen] = {}
        self._tree = Tree(self._proc, scan_s)
        self._users: dict[int, str] = {}
        self._keeps_delays = _keeps_delays(self._proc)
        self._may_be_strangers = not _sees_all(self._proc)

    def collect(
        self,
        pids: Iterable[int],
        now: float,
        accounts: Mapping[int, Answers] | None = None,
        homes: Mapping[int, Collection[int]] | None = None,
    ) -> list[Reading]:
        """One reading for each pid, in order; `now` is a monotonic second. An unreadable process has reasons alone.

        `accounts`: what the GPU's driver keeps of a process, by pid; `homes`: the NUMA nodes of the GPUs that it holds.
        """
        wanted = sorted(set(pids))[:MAX_PROCESSES]
        if wanted:
            self._tree.refresh(now)
        holders = frozenset(wanted)
        self._slow.ask(self._known(), now)
        before = frozenset(self._seen)
        readings = [self._read(pid, now, holders, (accounts or {}).get(pid, {}), (homes or {}).get(pid, ())) for pid in wanted]
        for pid in self._seen.keys() - holders:
            del self._seen[pid]
        self.cores_used = self._cores_used(readings)
        if self._seen.keys() - before:
            self._slow.ask(self._known(), now)  # by the next tick it is read
        return readings

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._slow.close()

    def _cores_used(self, readings: list[Reading]) -> float | str:
        used: dict[int, float] = {}
        for reading in readings:
            seen = self._seen.get(reading.pid)
            if seen is None:
                return reading.reasons[0] or "not_found"
            if seen.cores is None:
                return "no_previous"
            used |= seen.descendants.cores  # of two holders one may be the other's descendant
            used[reading.pid] = seen.cores
        return sum(used.values())

    def _known(self) -> list[Process]:
        return [(pid, seen.start, seen.user) for pid, seen in self._seen.items()]

    def started_by_holder(self, pid: int) -> bool:
        """True for a child of a process that held a GPU in the last tick, as far as the last scan knows."""
        return any(pid in self._tree.children(holder) for holder in self._seen)

    def _read(self, pid: int, now: float, holders: Container[int], account: Answers, home: Collection[int]) -> Reading:
        base = f"{self._proc}/{pid}"
        try:
            stat = process_stat.parse(procfs.read(f"{base}/stat"))
        except (OSError, ValueError, IndexError) as error:
            self._seen.pop(pid, None)
            why = procfs.reason(error) if isinstance(error, OSError) else "driver_error"
            return Reading(pid, "", "", [None] * len(_NAMES), [why] * len(_NAMES))
        seen = self._seen.get(pid)
        if seen is None or seen.start != stat.start:
            if self._may_be_strangers and _is_stranger(base):
                self._seen.pop(pid, None)
                return Reading(pid, "", "", [None] * len(_NAMES), ["not_found"] * len(_NAMES))
            seen = _Seen(stat.start, self._name(base, stat.comm), self._user(base), Descendants(pid), stat.ticks, now)
            self._seen[pid] = seen
        raw = self._cpu(base, pid, stat, seen, now)
        share = seen.descendants.read(self._tree, now, holders)
        raw["children_cpu_pct"] = "no_previous" if share is None else share
        raw["children"] = seen.descendants.count
        workers = seen.descendants.workers
        raw["dataloader_workers"] = "not_found" if workers is None else workers
        raw["worker_turnovers_total"] = "not_found" if workers is None else seen.descendants.spread.turnovers
        raw["slow_worker_ratio"] = seen.descendants.spread.busiest
        raw["threads"] = stat.threads
        raw["numa_local"] = self._numa.is_local(stat.processor, home)
        if self._keeps_delays and stat.io_delay is not None:
            raw["io_delay_s_total"] = stat.io_delay / _HZ
        for reader in READERS:
            raw |= reader(base)
        raw |= self._slow.of(pid, stat.start)
        raw |= account
        raw |= dict.fromkeys(_REPORTED, "not_found")
        if self._reports is not None:
            raw |= self._reports.of(pid, stat.start, now)
        values: list[Cell] = []
        reasons: list[str | None] = []
        for metric in PROCESS_METRICS:
            answer = raw.get(metric.name, "unsupported")
            value, reason = (None, answer) if isinstance(answer, str) else accept(metric, answer)
            values.append(value)
            reasons.append(reason)
        return Reading(pid, seen.name, seen.user, values, reasons, stat.start)

    def _cpu(self, base: str, pid: int, stat: Stat, seen: _Seen, now: float) -> Answers:
        """CPU of the process and of its main thread since the call before."""
        found: Answers = {"cpu_pct": "no_previous", "main_thread_cpu_pct": "no_previous"}
        elapsed = now - seen.at
        try:
            main: int | None = process_stat.parse(procfs.read(f"{base}/task/{pid}/stat")).ticks
        except (OSError, ValueError, IndexError) as error:
            main = None
            found["main_thread_cpu_pct"] = procfs.reason(error) if isinstance(error, OSError) else "driver_error"
        if elapsed > 0:
            seen.cores = max(0, stat.ticks - seen.ticks) / _HZ / elapsed
            found["cpu_pct"] = seen.cores * 100
            if main is not None and seen.main_ticks is not None:  # ticks are whole: a full second may count one too many
                found["main_thread_cpu_pct"] = min(100.0, max(0, main - seen.main_ticks) / _HZ / elapsed * 100)
        seen.ticks, seen.main_ticks, seen.at = stat.ticks, main, now
        return found

    def _user(self, base: str) -> str:
        try:
            uid = os.stat(base).st_uid
        except OSError:
            return ""
        if uid not in self._users:
            try:
                self._users[uid] = pwd.getpwuid(uid).pw_name
            except KeyError:
                self._users[uid] = str(uid)
        return self._users[uid]

    def _name(self, base: str, comm: str) -> str:
        if not INTERPRETER.fullmatch(comm):
            return comm if comm.isprintable() else "".join(one if one.isprintable() else "?" for one in comm)
        try:
            words = procfs.read(f"{base}/cmdline").decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            return comm
        found = script(words)
        return comm if found is None else found[0]


def _keeps_delays(proc: str) -> bool:
    """True where the kernel keeps delay accounts; without them the field of /proc/PID/stat is an empty 0."""
    try:
        return procfs.read(f"{proc}/sys/kernel/task_delayacct").strip() == b"1"
    except OSError:
        return False


def _sees_all(proc: str) -> bool:
    """False where the agent is in a pid namespace of its own: the driver's pids may then be the node's, not those of `proc`."""
    try:
        return os.readlink(f"{proc}/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return True


def _is_stranger(base: str) -> bool:
    """True where this process surely has no GPU open: another one of the node has the pid that the driver told."""
    try:
        files = os.listdir(f"{base}/fd")
    except OSError:
        return False
    if len(files) > _MAX_FILES:
        return False
    for file in files:
        try:
            if os.readlink(f"{base}/fd/{file}").startswith(_DEVICES):
                return False
        except OSError:
            continue
    return True
