"""The node itself: CPU, memory, disks, network, from a /proc given as an argument."""

import os
import re
from pathlib import Path
from typing import Final

from agents.collectors import procfs
from wire.messages import Cell, HostFacts
from wire.metrics import Number, accept, sent

HOST_METRICS: Final = tuple(sent("host"))
POSITION: Final = {metric.name: i for i, metric in enumerate(HOST_METRICS)}

# Whole disks alone: partitions, RAID members and device-mapper targets would count the same bytes again.
_DISK: Final = re.compile(rb"(?:sd[a-z]+|vd[a-z]+|xvd[a-z]+|hd[a-z]+|nvme\d+n\d+|mmcblk\d+|dasd[a-z]+)")
# Interfaces that carry what another interface carries too.
_DOUBLE: Final = re.compile(rb"lo|veth|docker|br-|virbr|vnet|cni|flannel|cali|bond|team|dummy|ifb|kube|lxc|cilium")
_SECTOR: Final = 512

_CpuTimes = tuple[int, ...]


class HostCollector:
    """Reads the host. `values[i]` and `reasons[i]` belong to HOST_METRICS[i]; `per_core_pct` is busy percent a core."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.values: list[Cell] = [None] * len(HOST_METRICS)
        self.reasons: list[str | None] = ["no_previous"] * len(HOST_METRICS)
        self.per_core_pct: list[float] | None = None
        self._stat = procfs.ProcFile(proc / "stat")
        self._memory = procfs.ProcFile(proc / "meminfo")
        self._disks = procfs.ProcFile(proc / "diskstats")
        self._network = procfs.ProcFile(proc / "net" / "dev")
        self._previous: dict[bytes, _CpuTimes] = {}

    def collect(self) -> None:
        """Read everything once; means are over the time since the call before."""
        self._cpu()
        self._mem()
        self._disk()
        self._net()

    def close(self) -> None:
        """Close the files."""
        for file in (self._stat, self._memory, self._disks, self._network):
            file.close()

    def _set(self, name: str, value: Number | None, reason: str = "unsupported") -> None:
        position = POSITION[name]
        if value is None:
            self.values[position], self.reasons[position] = None, reason
        else:
            self.values[position], self.reasons[position] = accept(HOST_METRICS[position], value)

    def _absent(self, names: tuple[str, ...], reason: str) -> None:
        for name in names:
            self._set(name, None, reason)

    def _cpu(self) -> None:
        names = ("cpu_busy_cores", "cpu_core_max_pct", "cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct")
        try:
            lines = self._stat.read().split(b"\n")
        except OSError as error:
            self._previous = {}
            self.per_core_pct = None
            return self._absent(names, _missing(error))
        now: dict[bytes, _CpuTimes] = {}
        for line in lines:
            if not line.startswith(b"cpu"):
                break
            words = line.split()
            now[words[0]] = tuple(map(int, words[1:9]))
        previous, self._previous = self._previous, now
        self.per_core_pct = None
        if not any(now.get(b"cpu", ())):
            return self._absent(names, "unsupported")  # sandboxes show a /proc/stat of zeros
        total = _shares(previous.get(b"cpu"), now[b"cpu"])
        if total is None:
            return self._absent(names, "no_previous")
        user, system, iowait, _ = total
        self._set("cpu_user_pct", user)
        self._set("cpu_system_pct", system)
        self._set("cpu_iowait_pct", iowait)
        cores = []
        for name, times in now.items():
            shares = _shares(previous.get(name), times) if name != b"cpu" else None
            if shares is not None:  # a core that was switched on or off meanwhile has no interval
                cores.append(shares[3])
        if not cores:
            return self._absent(names[:2], "unsupported")
        self.per_core_pct = cores
        self._set("cpu_busy_cores", sum(cores) / 100)
        self._set("cpu_core_max_pct", max(cores))
        return None

    def _mem(self) -> None:
        try:
            total, available = _meminfo(self._memory.read())
        except OSError as error:
            return self._set("mem_used_bytes", None, _missing(error))
        self._set("mem_used_bytes", None if total is None or available is None else total - available)
        return None

    def _disk(self) -> None:
        names = ("disk_read_bytes_total", "disk_write_bytes_total")
        try:
            lines = self._disks.read().split(b"\n")
        except OSError as error:
            return self._absent(names, _missing(error))
        read = written = disks = 0
        for line in lines:
            words = line.split()
            if len(words) >= 10 and _DISK.fullmatch(words[2]):
                disks += 1
                read += int(words[5])
                written += int(words[9])
        self._set(names[0], read * _SECTOR if disks else None)
        self._set(names[1], written * _SECTOR if disks else None)
        return None

    def _net(self) -> None:
        names = ("net_rx_bytes_total", "net_tx_bytes_total")
        try:
            lines = self._network.read().split(b"\n")
        except OSError as error:
            return self._absent(names, _missing(error))
        received = sent_bytes = interfaces = 0
        for line in lines[2:]:
            name, colon, counters = line.partition(b":")
            words = counters.split()
            if colon and len(words) >= 9 and not _DOUBLE.match(name.strip()):
                interfaces += 1
                received += int(words[0])
                sent_bytes += int(words[8])
        self._set(names[0], received if interfaces else None)
        self._set(names[1], sent_bytes if interfaces else None)
        return None


def facts(proc: Path = Path("/proc")) -> HostFacts:
    """The host's size and kernel; None where it does not say."""
    try:
        total, _ = _meminfo(procfs.read(str(proc / "meminfo")))
    except OSError:
        total = None
    return HostFacts(cores=os.cpu_count(), mem_total_bytes=total, kernel=os.uname().release)


def _missing(error: OSError) -> str:
    """A file of /proc that this kernel does not have is `unsupported`, not `not_found`."""
    reason = procfs.reason(error)
    return "unsupported" if reason == "not_found" else reason


def _shares(before: _CpuTimes | None, now: _CpuTimes) -> tuple[float, float, float, float] | None:
    """Percent of user, system, iowait and busy time between two lines of /proc/stat; None without an interval."""
    if before is None or len(before) < 8 or len(now) < 8:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (max(0, b - a) for a, b in zip(before, now, strict=True))
    total = user + nice + system + idle + iowait + irq + softirq + steal
    if total <= 0:
        return None
    scale = 100 / total
    return (user + nice) * scale, (system + irq + softirq) * scale, iowait * scale, (total - idle - iowait) * scale


def _meminfo(content: bytes) -> tuple[int | None, int | None]:
    """Total and available bytes."""
    found: dict[bytes, int] = {}
    for line in content.split(b"\n", 8)[:8]:
        words = line.split()
        if len(words) >= 2 and words[0] in (b"MemTotal:", b"MemAvailable:"):
            found[words[0]] = int(words[1]) * 1024
    return found.get(b"MemTotal:"), found.get(b"MemAvailable:")
