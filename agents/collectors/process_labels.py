"""What processes are, in words: read when a process is first seen, and again every few minutes (`rounds.py`)."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from agents.collectors import cgroup, command_line, environment, loaded, process_stat, procfs, visible_gpus
from agents.collectors.rounds import Process, Rounds
from wire.labels import MAX_LABEL, MAX_LABELS, is_label
from wire.messages import GpuFacts
from wire.variables import SET

REFRESH_S: Final = 300.0
AGAIN_S: Final = 15.0
"""A process that has just begun sets up its environment and loads its libraries; it is read once more after this time."""
_ANCESTORS: Final = 8
_MAX_BYTES: Final = 1 << 20
_IDENTITY: Final = ("container", "pod", "pod_name", "slurm_job", "slurm_step", "slurm_partition", "pid_in_namespace")
_SHUT_IN: Final = {"container", "pod", "slurm_job", "pid_in_namespace"}
"""Labels of processes that may see fewer GPUs than the node has."""

_Answer: TypeAlias = tuple[dict[str, str], frozenset[str]]
"""Labels, and the files of /proc/PID that this user may not read."""


class ProcessLabels:
    """Labels of the processes it was last asked for."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = str(proc)
        self._rounds: Rounds[_Answer] = Rounds(self._proc, "labels", self._read, AGAIN_S, REFRESH_S)
        self._answers: dict[int, _Answer] = {}
        self._gpus: Sequence[GpuFacts] = ()

    @property
    def not_permitted(self) -> frozenset[str]:
        """Files of /proc/PID that this user may not read, of any of the processes."""
        return frozenset[str]().union(*(denied for _, denied in self._answers.values()))

    def of(self, processes: Iterable[Process], now: float, gpus: Sequence[GpuFacts] = ()) -> dict[int, dict[str, str]]:
        """What is known by now of each process, by its pid; one that was not read yet is left out. Starts what is due.

        `gpus`: those of the node; when they change, all is read again, for what a process may use is told by them.
        """
        has_changed, self._gpus = gpus is not self._gpus, gpus
        self._answers = self._rounds.of(processes, now, anew=has_changed)
        return {pid: labels for pid, (labels, _) in self._answers.items() if labels}

    def close(self) -> None:
        """Let the thread end; does not wait for it."""
        self._rounds.close()

    def _read(self, pid: int, user: str) -> _Answer:
        labels, denied = read(self._proc, pid, user, self._gpus)
        return labels, frozenset(denied)


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
