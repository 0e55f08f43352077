"""The descendants of a process that holds a GPU: how many, what CPU they take, and which are its data loader workers."""

import os
import time
from collections.abc import Container
from typing import Final

from agents.collectors import process_stat, procfs
from agents.collectors.workers import Workers

_HZ: Final = os.sysconf("SC_CLK_TCK")
_SCAN_SHARE: Final = 0.0002
"""The scan for descendants lists all of /proc and reads what is new; it may take this share of a core."""
SCAN_S: Final = 5.0
_SCAN_MAX_S: Final = 60.0
_WHOLE_S: Final = 300.0
"""All parents are read again after this time: a pid may be another's by now, and an orphan has a new parent."""
_SIGHTS: Final = 3
"""A child is judged on its first sights alone: between fork and exec it still has its parent's command line."""
_SPAWNED: Final = (
    b"--multiprocessing-fork",
    b"from multiprocessing.spawn import spawn_main",
    b"from multiprocessing.forkserver ",
)


class Tree:
    """Who is whose child in a /proc, scanned again no oftener than its cost allows: a new process may be seen some seconds late,
    but for those that a process's main thread started, as it starts loader workers. `scan_s`: seconds between two scans at least; who
    looks oftener may spend as much more.

    One that has ended is known by its `stat`, whatever stands here; so is one whose pid is another's by now.
    """

    def __init__(self, proc: str, scan_s: float = SCAN_S) -> None:
        self.proc = proc
        self._scan_s = scan_s
        self._parent_of: dict[int, int] = {}
        self._children_of: dict[int, list[int]] = {}
        self._scan_at = self._whole_at = float("-inf")

    def refresh(self, now: float) -> None:
        """Scan where it is due; the next scan waits longer, the dearer this one was."""
        if now < self._scan_at:
            return
        began = time.thread_time()
        if now >= self._whole_at:
            self._parent_of, self._whole_at = {}, now + _WHOLE_S
        found = procfs.parents(self.proc, self._parent_of)
        if found != self._parent_of:
            self._parent_of, self._children_of = found, procfs.children(found)
        cost = time.thread_time() - began
        self._scan_at = now + min(_SCAN_MAX_S, max(self._scan_s, cost / _SCAN_SHARE * self._scan_s / SCAN_S))

    def children(self, pid: int) -> list[int]:
        """Pids of the known children."""
        return self._children_of.get(pid, [])


class Descendants:
    """Those of one process, from one call of `read` to the next."""

    def __init__(self, pid: int) -> None:
        self.count = 0
        self.workers: int | None = None
        """Those that run the process's own program and hold no GPU; None where its command line cannot be read."""
        self.spread = Workers()
        self.cores: dict[int, float] = {}
        """What each one used between the last two calls, by its pid."""
        self._pid = pid
        self._known: dict[int, _Child] = {}
        self._at: float | None = None
        self._own: bytes | None = None

    def read(self, tree: Tree, now: float, holders: Container[int]) -> float | None:
        """Percent of a core that the known ones used since the call before; None without one. Zombies do not count."""
        found: dict[int, _Child] = {}
        used: dict[int, int] = {}
        if not self._own:  # it may have been read between the fork and the exec of the process itself
            self._own = _command_line(tree.proc, self._pid)
        # The scan's are asked too: another thread may have started some.
        pending = [(pid, self._pid) for pid in {*tree.children(self._pid), *procfs.started(tree.proc, self._pid)}]
        while pending:
            pid, parent = pending.pop()
            if pid in found or pid == self._pid:
                continue
            try:
                stat = process_stat.parse(procfs.read(f"{tree.proc}/{pid}/stat"))
            except (OSError, ValueError, IndexError):
                continue
            if stat.state == "Z" or stat.parent != parent:
                continue
            before = self._known.get(pid)
            child = before if before is not None and before.start == stat.start else _Child(stat.start, stat.ticks)
            used[pid] = max(0, stat.ticks - child.ticks)
            child.ticks = stat.ticks
            if child.sights < _SIGHTS:
                child.sights += 1
                child.is_worker = stat.comm.startswith("pt_data_worker") or self._runs_own_program(
                    _command_line(tree.proc, pid), _command_line(tree.proc, stat.parent)
                )
            found[pid] = child
            pending.extend((below, pid) for below in tree.children(pid))
        elapsed = now - self._at if self._at is not None else 0.0
        self._known, self._at = found, now
        self.count = len(found)
        workers = [(pid, child) for pid, child in found.items() if child.is_worker and pid not in holders]
        self.workers = len(workers) if self._own else None
        self.spread.look({(pid, child.start): child.ticks for pid, child in workers if child.sights >= _SIGHTS}, now)
        if elapsed <= 0:
            self.cores = {}
            return None
        self.cores = {pid: ticks / _HZ / elapsed for pid, ticks in used.items()}
        return sum(self.cores.values()) * 100

    def _runs_own_program(self, words: bytes | None, parents: bytes | None) -> bool:
        if not words:
            return False
        if _SPAWNED[2] in words:  # the fork server itself is none; what it forked looks like it
            return words == parents
        return words == self._own or any(mark in words for mark in _SPAWNED[:2])


class _Child:
    __slots__ = ("is_worker", "sights", "start", "ticks")

    def __init__(self, start: int, ticks: int) -> None:
        self.start, self.ticks, self.sights, self.is_worker = start, ticks, 0, False


def _command_line(proc: str, pid: int) -> bytes | None:
    try:
        return procfs.read(f"{proc}/{pid}/cmdline")
    except OSError:
        return None
