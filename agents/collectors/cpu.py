"""CPU time of the host, from /proc/stat."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from agents.collectors import procfs
from wire.metrics import Number

_Times: TypeAlias = tuple[int, ...]
_OF_CORES = ("cpu_busy_cores", "cpu_core_max_pct")


class Cpu:
    """Shares of the time since the call before; `per_core_pct` is busy percent a core, None without an interval."""

    names = (*_OF_CORES, "cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct", "cpu_steal_pct")

    def __init__(self, proc: Path) -> None:
        self.per_core_pct: list[float] | None = None
        self._file = procfs.ProcFile(proc / "stat")
        self._previous: dict[bytes, _Times] = {}

    def read(self) -> Mapping[str, Number | str]:
        """Shares over all cores, and of the busiest one."""
        self.per_core_pct = None
        previous, self._previous = self._previous, {}
        now: dict[bytes, _Times] = {}
        for line in self._file.read().split(b"\n"):
            if not line.startswith(b"cpu"):
                break
            words = line.split()
            now[words[0]] = tuple(map(int, words[1:9]))
        self._previous = now
        if not any(now.get(b"cpu", ())):
            return {}  # sandboxes show a /proc/stat of zeros
        total = _shares(previous.get(b"cpu"), now[b"cpu"])
        if total is None:
            return dict.fromkeys(self.names, "no_previous")
        user, system, iowait, steal, _ = total
        found: dict[str, Number | str] = {
            "cpu_user_pct": user,
            "cpu_system_pct": system,
            "cpu_iowait_pct": iowait,
            "cpu_steal_pct": steal,
        }
        cores = []
        for name, times in now.items():
            shares = _shares(previous.get(name), times) if name != b"cpu" else None
            if shares is not None:  # a core that was switched on or off meanwhile has no interval
                cores.append(shares[4])
        if cores:
            self.per_core_pct = cores
            found |= zip(_OF_CORES, (sum(cores) / 100, max(cores)), strict=True)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _shares(before: _Times | None, now: _Times) -> tuple[float, float, float, float, float] | None:
    """Percent of user, system, iowait, stolen and busy time between two lines of /proc/stat; None without an interval."""
    if before is None or len(before) < 8 or len(now) < 8:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (max(0, b - a) for a, b in zip(before, now, strict=True))
    total = user + nice + system + idle + iowait + irq + softirq + steal
    if total <= 0:
        return None
    scale = 100 / total
    return (user + nice) * scale, (system + irq + softirq) * scale, iowait * scale, steal * scale, (total - idle - iowait) * scale
