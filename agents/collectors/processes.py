"""The processes that hold a GPU: who they are and what they and their descendants do.

The name is the program's: its `comm`, or for an interpreter the script's file name or module. Nothing else of a
command line is kept.
"""

import os
import pwd
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from agents.collectors import procfs
from wire.messages import Cell
from wire.metrics import accept, of

PROCESS_METRICS: Final = tuple(of("process"))
_NAMES: Final = tuple(metric.name for metric in PROCESS_METRICS)
_HZ: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
MAX_PROCESSES: Final = 256
"""More processes than this hold no GPU on a sane node; the rest is left out of a frame that must stay small."""
_SCAN_SHARE: Final = 0.001
"""The scan for descendants reads all of /proc; it may take this share of a core."""
_SCAN_MIN_S: Final = 2.0
_SCAN_MAX_S: Final = 60.0

_INTERPRETER: Final = re.compile(r"(?:python|pypy|pt_main_thread|bash|sh|dash|perl|ruby|node|julia|java|Rscript)[\d.]*w?")
_SAFE: Final = re.compile(r"[\w.+-]{1,64}")
_INLINE: Final = re.compile(r"-[A-Za-z]*c")  # the next argument is a program, not a file
_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")


Answers: TypeAlias = dict[str, Cell | str]
"""Numbers or reasons by the registry's names."""


@dataclass(slots=True)
class _Seen:
    """What is known of one process; `start` tells it from a later one of the same pid."""

    start: int
    name: str
    user: str
    ticks: int
    at: float
    children: dict[int, tuple[int, int]] = field(default_factory=dict)  # pid: (start, ticks)
    children_at: float | None = None


@dataclass(slots=True)
class Reading:
    """One process now: values and reasons in the order of PROCESS_METRICS."""

    pid: int
    name: str
    user: str
    values: list[Cell]
    reasons: list[str | None]


def rss(base: str) -> Answers:
    """Resident memory."""
    try:
        return {"rss_bytes": int(procfs.read(f"{base}/statm").split()[1]) * _PAGE}
    except OSError as error:
        return {"rss_bytes": procfs.reason(error)}
    except (ValueError, IndexError):
        return {"rss_bytes": "not_a_number"}


def io(base: str) -> Answers:
    """Bytes passed to read and write calls."""
    names = ("read_chars_total", "write_chars_total")
    try:
        content = procfs.read(f"{base}/io")
    except FileNotFoundError:
        return dict.fromkeys(names, "unsupported")  # a kernel without task accounting
    except OSError as error:
        return dict.fromkeys(names, procfs.reason(error))
    words = dict(line.split(b":", 1) for line in content.split(b"\n") if b":" in line)
    try:
        return dict(zip(names, (int(words[b"rchar"]), int(words[b"wchar"])), strict=True))
    except (KeyError, ValueError):
        return dict.fromkeys(names, "not_a_number")


READERS: Final[tuple[Callable[[str], Answers], ...]] = (rss, io)
"""What else is read of each process, from its folder in /proc; a new reading is a file beside this one and a line here."""


class ProcessCollector:
    """Reads the processes it is asked for from a /proc given as an argument."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = str(proc)
        self._seen: dict[int, _Seen] = {}
        self._children_of: dict[int, list[int]] = {}
        self._scan_at = float("-inf")
        self._users: dict[int, str] = {}

    def collect(self, pids: Iterable[int], now: float) -> list[Reading]:
        """One reading for each pid, in order; `now` is a monotonic second. An unreadable process has reasons alone."""
        wanted = sorted(set(pids))[:MAX_PROCESSES]
        if wanted and now >= self._scan_at:
            self._scan(now)
        readings = [self._read(pid, now) for pid in wanted]
        for pid in self._seen.keys() - set(wanted):
            del self._seen[pid]
        return readings

    def _read(self, pid: int, now: float) -> Reading:
        base = f"{self._proc}/{pid}"
        try:
            stat = _stat(procfs.read(f"{base}/stat"))
        except (OSError, ValueError, IndexError) as error:
            self._seen.pop(pid, None)
            why = procfs.reason(error) if isinstance(error, OSError) else "driver_error"
            return Reading(pid, "", "", [None] * len(_NAMES), [why] * len(_NAMES))
        values: list[Cell] = []
        reasons: list[str | None] = []
        seen = self._seen.get(pid)
        raw: Answers = {"threads": stat.threads}
        if seen is None or seen.start != stat.start:
            seen = self._seen[pid] = _Seen(stat.start, self._name(base, stat.comm), self._user(base), stat.ticks, now)
            raw["cpu_pct"] = raw["children_cpu_pct"] = "no_previous"
            self._children(pid, seen, now)
            raw["children"] = len(seen.children)
        else:
            elapsed = now - seen.at
            raw["cpu_pct"] = max(0, stat.ticks - seen.ticks) / _HZ / elapsed * 100 if elapsed > 0 else "no_previous"
            seen.ticks, seen.at = stat.ticks, now
            share = self._children(pid, seen, now)
            raw["children_cpu_pct"] = "no_previous" if share is None else share
            raw["children"] = len(seen.children)
        for reader in READERS:
            raw |= reader(base)
        for metric in PROCESS_METRICS:
            answer = raw.get(metric.name, "unsupported")
            value, reason = (None, answer) if isinstance(answer, str) else accept(metric, answer)
            values.append(value)
            reasons.append(reason)
        return Reading(pid, seen.name, seen.user, values, reasons)

    def _children(self, pid: int, seen: _Seen, now: float) -> float | None:
        """Percent of a core that the known descendants used since the call before; None without one."""
        found: dict[int, tuple[int, int]] = {}
        ticks = 0
        pending = list(self._children_of.get(pid, ()))
        while pending:
            child = pending.pop()
            if child in found or child == pid:
                continue
            try:
                stat = _stat(procfs.read(f"{self._proc}/{child}/stat"))
            except (OSError, ValueError, IndexError):
                continue
            if stat.state == "Z":
                continue
            found[child] = (stat.start, stat.ticks)
            before = seen.children.get(child)
            if before is not None and before[0] == stat.start:
                ticks += max(0, stat.ticks - before[1])
            pending.extend(self._children_of.get(child, ()))
        elapsed = now - seen.children_at if seen.children_at is not None else 0.0
        seen.children, seen.children_at = found, now
        return ticks / _HZ / elapsed * 100 if elapsed > 0 else None

    def _scan(self, now: float) -> None:
        """Learn who is whose child; the next scan waits longer, the dearer this one was."""
        began = time.thread_time()
        self._children_of = procfs.children(self._proc)
        cost = time.thread_time() - began
        self._scan_at = now + min(_SCAN_MAX_S, max(_SCAN_MIN_S, cost / _SCAN_SHARE))

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
        if not _INTERPRETER.fullmatch(comm):
            return comm
        try:
            words = procfs.read(f"{base}/cmdline").split(b"\0")
        except OSError:
            return comm
        return program([word.decode(errors="replace") for word in words if word]) or comm


def program(words: list[str]) -> str | None:
    """The script's file name or module that an interpreter runs, from its command line; None where there is none."""
    rest = iter(words[1:])
    for word in rest:
        if word == "-m":
            module = next(rest, "")
            return module if _SAFE.fullmatch(module) else None
        if _INLINE.fullmatch(word):
            return None
        if word in _WITH_VALUE:
            next(rest, None)
            continue
        if word.startswith("-"):
            continue
        name = os.path.basename(word)
        return name if _SAFE.fullmatch(name) else None
    return None


@dataclass(slots=True)
class _Stat:
    comm: str
    state: str
    ticks: int
    threads: int
    start: int


def _stat(content: bytes) -> _Stat:
    """The fields of /proc/PID/stat that matter; the name may hold spaces and parentheses."""
    opening, closing = content.index(b"("), content.rindex(b")")
    words = content[closing + 2 :].split()
    return _Stat(
        comm=content[opening + 1 : closing].decode(errors="replace"),
        state=words[0].decode(),
        ticks=int(words[11]) + int(words[12]),
        threads=int(words[17]),
        start=int(words[19]),
    )
