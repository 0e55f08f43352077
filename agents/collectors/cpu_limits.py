"""What a process may have of the CPU: its control group's quota, how often that held it back, and the CPUs that it may run on.

Version 2 and version 1 of control groups (https://docs.kernel.org/admin-guide/cgroup-v2.html, .../scheduler/sched-bwc.html). A quota
binds at every level of the tree: the tightest one counts, and the periods are those of its level. An agent in a container may not see
the tree; then what the process itself sees as the root of its control groups is asked, which is its container's level.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from agents.collectors import below, procfs
from agents.collectors.cpu_list import ranges
from agents.collectors.process_readers import Answers

_QUOTA: Final = ("cpu_periods_total", "cpu_throttled_periods_total", "cpu_quota_cores")
_MAX_DEPTH: Final = 32
_MAX_FILE: Final = 1 << 16
_V1: Final = ("cpu", "cpu,cpuacct", "cpuacct,cpu")


class _Group(NamedTuple):
    """A level: its folder, and whose root that is below, where it is not the agent's."""

    folder: str
    is_v1: bool
    root: str = ""

    def read(self, file: str) -> bytes:
        """A file of it; OSError where it is not there."""
        path = f"{self.folder}/{file}"
        return below.read(self.root, path.encode(), _MAX_FILE) if self.root else procfs.read(path)


def quota(proc: str, sys: str, pid: int) -> Answers:
    """The tightest quota in cores, its periods and those in which the group was held back; `not_found` where nothing limits it."""
    try:
        lines = procfs.read(f"{proc}/{pid}/cgroup").decode(errors="replace").splitlines()
        found = _limits(_levels(f"{sys}/fs/cgroup", lines))
        if not found and not _is_root(lines):
            found = _limits(_own(f"{proc}/{pid}/root", lines))
            if not found:
                return dict.fromkeys(_QUOTA, "unsupported")
        limited = [(cores, group) for cores, group in found if cores is not None]
        if not limited:
            return dict.fromkeys(_QUOTA, "not_found")
        cores, group = min(limited)
        told = dict(line.split(None, 1) for line in group.read("cpu.stat").splitlines())
        return dict(zip(_QUOTA, (int(told[b"nr_periods"]), int(told[b"nr_throttled"]), cores), strict=True))
    except OSError as error:
        return dict.fromkeys(_QUOTA, procfs.reason(error))
    except (ValueError, IndexError, KeyError):
        return dict.fromkeys(_QUOTA, "not_a_number")


def allowed(proc: str, sys: str, pid: int) -> Answers:
    """How many CPUs its main thread may run on: its affinity within its control group's CPUs, those that are switched off left out."""
    try:
        status = procfs.read(f"{proc}/{pid}/status")
        at = status.index(b"\nCpus_allowed_list:")
        words = status[at + 19 : status.index(b"\n", at + 1)]
        cpus = ranges(words.decode())
        return {"cpus_allowed": len(cpus & ranges(procfs.read(f"{sys}/devices/system/cpu/online").decode()))}
    except OSError as error:
        return {"cpus_allowed": procfs.reason(error)}
    except ValueError:
        return {"cpus_allowed": "not_a_number"}


def _limits(groups: Iterator[_Group]) -> list[tuple[float | None, _Group]]:
    """The quotas of those levels that can have one."""
    found = []
    for group in groups:
        try:
            found.append((_cores(group), group))
        except (FileNotFoundError, NotADirectoryError):
            continue  # the root has no quota, and a group may have no CPU controller, or a link to it under another name
    return found


def _own(root: str, lines: list[str]) -> Iterator[_Group]:
    """What the process sees as the root of its control groups."""
    for name in _V1 if _path(lines)[1] else ("",):
        yield _Group(f"sys/fs/cgroup/{name}", bool(name), root)


def _levels(root: str, lines: list[str]) -> Iterator[_Group]:
    """The process's group and those above it, as far as this agent sees them."""
    path, is_v1 = _path(lines)
    if path is None or ".." in path.split("/"):
        return  # outside the namespace of control groups that the agent is in
    names = [name for name in path.split("/") if name][:_MAX_DEPTH]
    for base in [f"{root}/{name}" for name in _V1] if is_v1 else [root]:
        for depth in range(len(names), -1, -1):
            yield _Group("/".join((base, *names[:depth])), is_v1)


def _path(lines: list[str]) -> tuple[str | None, bool]:
    """The path of the hierarchy that has the CPU controller, and True for version 1."""
    unified: str | None = None
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "cpu" in controllers.split(","):
            return path, True
        if number == "0" and not controllers:
            unified = path
    return unified, False


def _is_root(lines: list[str]) -> bool:
    return _path(lines)[0] == "/"


def _cores(group: _Group) -> float | None:
    """The level's quota; None where it has none."""
    if group.is_v1:
        quota = int(group.read("cpu.cfs_quota_us"))
        return None if quota < 0 else quota / int(group.read("cpu.cfs_period_us"))
    words = group.read("cpu.max").split()
    return None if words[0] == b"max" else int(words[0]) / int(words[1])
