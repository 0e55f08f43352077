"""CPU time of the host, from /proc/stat."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from agents.collectors import procfs
from wire.metrics import Number

_Times: TypeAlias = tuple[int, ...]
_OF_CORES = ("cpu_busy_cores", "cpu_core_max_pct")
_OF_ALL = ("cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct", "cpu_steal_pct")


class Cpu:
    """Shares of the time since the call before; `per_core_pct` is busy percent a core, None without an interval."""

    names = (*_OF_CORES, *_OF_ALL)

    def __init__(self, proc: Path) -> None:
        self.per_core_pct: list[float] | None = None
        self._file = procfs.ProcFile(proc / "stat")
        self._total: _Times | None = None
        self._cores: dict[bytes, tuple[int, int]] = {}  # time in all and time busy

    def read(self) -> Mapping[str, Number | str]:
        """Shares over all cores, and of the busiest one."""
        self.per_core_pct = None
        before, total_before = self._cores, self._total
        self._cores, self._total = {}, None
        content = self._file.read()
        end = content.find(b"\nintr")  # behind it are thousands of counts of interrupts
        whole, *lines = content[: end if end >= 0 else len(content)].split(b"\n")
        words = whole.split()
        self._total = now = tuple(map(int, words[1:9]))
        for line in lines:  # a node has hundreds: two numbers of each are enough
            words = line.split()
            if len(words) > 8 and words[0].startswith(b"cpu"):
                total = sum(map(int, words[1:9]))
                self._cores[words[0]] = total, total - int(words[4]) - int(words[5])
        if not any(now):
            return {}  # sandboxes show a /proc/stat of zeros
        shares = _shares(total_before, now)
        if shares is None:
            return dict.fromkeys(self.names, "no_previous")
        found: dict[str, Number | str] = dict(zip(_OF_ALL, shares, strict=True))
        # a core that was switched on or off meanwhile has no interval
        pairs = [(before[name], core) for name, core in self._cores.items() if name in before]
        cores = [min(100.0, max(0, b - a) / (all_b - all_a) * 100) for (all_a, a), (all_b, b) in pairs if all_b > all_a]
        if cores:
            self.per_core_pct = cores
            found |= zip(_OF_CORES, (sum(cores) / 100, max(cores)), strict=True)
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _shares(before: _Times | None, now: _Times) -> tuple[float, float, float, float] | None:
    """Percent of user, system, iowait and stolen time between two lines of /proc/stat; None without an interval."""
    if before is None or len(before) < 8 or len(now) < 8:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (max(0, b - a) for a, b in zip(before, now, strict=True))
    total = user + nice + system + idle + iowait + irq + softirq + steal
    if total <= 0:
        return None
    scale = 100 / total
    return (user + nice) * scale, (system + irq + softirq) * scale, iowait * scale, steal * scale
