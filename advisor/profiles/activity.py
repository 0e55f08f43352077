"""What a reader collects of a profile while it passes by: arrays and counters, never the events.

A GPU activity keeps 33 bytes, a call that launches one 28, a host thread 16 for each interval in which it was busy, waited or loaded.
At MAX_ACTIVITIES of one of the three the reader stops and says so. All three full take 150 MB and their sums 0.7 GB for the moment.
"""

from array import array
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

from advisor.profiles.intervals import Fold
from advisor.profiles.kernels import Kind, kind

MAX_ACTIVITIES: Final = 2_000_000
MAX_NAMES: Final = 8192
"""Kernel names kept at a time; generated ones can be as many as kernels."""
NAME_LENGTH: Final = 300
MAX_GPUS: Final = 64
MAX_KEYS: Final = 1024
"""Threads, kinds of copy; a trace that has more of them, or of GPUs, makes them up."""
MAX_STEPS: Final = 100_000
MAX_TYPED: Final = 100_000
"""Operators of which the inputs' format is remembered, to tell that of kernels whose name does not."""
LONGEST_NS: Final = 366 * 86_400 * 10**9
LATEST_NS: Final = 9 * 10**18
NO_CORRELATION: Final = -1

COMPUTE, COMMUNICATION, COPY = 0, 1, 2


class Full(Exception):  # noqa: N818  # not an error: the reader stops here and says so
    """More activities than are kept."""


@dataclass(slots=True)
class KernelSum:
    """Of all kernels of one name: their kind, how many, their time in all and the longest."""

    kind: Kind
    count: int = 0
    total_ns: int = 0
    longest_ns: int = 0


class KernelTable:
    """Time by kernel name, the heaviest MAX_NAMES / 2 at least; the rest as one sum.

    Where there are more names than that, the lightest go to `rest` whenever the table is full: a name that comes back starts anew, so
    its sum is then a lower bound (`folded` is set). The sums by kind are always exact.
    """

    def __init__(self) -> None:
        self.names: dict[str, KernelSum] = {}
        self.kinds: dict[Kind, KernelSum] = {}
        self.rest = KernelSum(Kind("other"))
        self.folded = False

    def add(self, name: str, duration_ns: int) -> Kind:
        """Count one kernel; what its name says comes back."""
        row = self.names.get(name)
        if row is None:
            if len(self.names) >= MAX_NAMES:
                self._fold()
            row = self.names[name] = KernelSum(kind(name))
        by_kind = self.kinds.get(row.kind)
        if by_kind is None:
            by_kind = self.kinds[row.kind] = KernelSum(row.kind)
        for one in (row, by_kind):
            one.count += 1
            one.total_ns += duration_ns
            if duration_ns > one.longest_ns:
                one.longest_ns = duration_ns
        return row.kind

    def _fold(self) -> None:
        heaviest = sorted(self.names.items(), key=lambda item: -item[1].total_ns)
        self.names = dict(heaviest[: MAX_NAMES // 2])
        self.folded = True
        for _name, row in heaviest[MAX_NAMES // 2 :]:
            self.rest.count += row.count
            self.rest.total_ns += row.total_ns
            self.rest.longest_ns = max(self.rest.longest_ns, row.longest_ns)


@dataclass(slots=True)
class CopySum:
    """Copies of one direction and pair of memory kinds. `size_bytes` is None as soon as one of them did not tell its size."""

    count: int = 0
    size_bytes: int | None = 0
    total_ns: int = 0


@dataclass(slots=True)
class GpuTimes:
    """One device as one process used it: the activities' times, class, stream and correlation, in the file's order."""

    starts: "array[int]" = field(default_factory=lambda: array("q"))
    ends: "array[int]" = field(default_factory=lambda: array("q"))
    classes: "array[int]" = field(default_factory=lambda: array("b"))
    streams: "array[int]" = field(default_factory=lambda: array("q"))
    correlations: "array[int]" = field(default_factory=lambda: array("q"))
    kernels: KernelTable = field(default_factory=KernelTable)
    copies: dict[tuple[str, str | None, str | None], CopySum] = field(default_factory=dict)
    untyped: dict[int, int] = field(default_factory=dict)
    """Nanoseconds by operator of kernels off tensor cores whose names do not tell their number format."""


@dataclass(slots=True)
class Host:
    """One thread: when it ran operators or CUDA calls, when it waited for the GPU, when for its DataLoader."""

    busy: Fold = field(default_factory=Fold)
    waiting: Fold = field(default_factory=Fold)
    loading: Fold = field(default_factory=Fold)


class Collected:
    """All of one profile. Times are nanoseconds of the profile's own clock."""

    def __init__(self) -> None:
        self.gpus: dict[tuple[Hashable, int], GpuTimes] = {}
        self.threads: dict[Hashable, int] = {}
        self.hosts: list[Host] = []
        self.launch_correlations, self.launch_starts = array("q"), array("q")
        self.launch_ends, self.launch_threads = array("q"), array("i")
        self.steps: dict[tuple[Hashable, int], int] = {}
        self.typed: dict[int, str] = {}
        self.events = self.impossible = self.gpu_activities = self.overflow = 0
        self.operators = self.calls = self.loads = 0
        self._streams: dict[Hashable, int] = {}
        self._intervals_at = 0

    def gpu(self, process: Hashable, device: int) -> GpuTimes:
        """The device's arrays; Full where a trace has more devices than can be."""
        found = self.gpus.get((process, device))
        if found is None:
            if len(self.gpus) >= MAX_GPUS:
                raise Full
            found = self.gpus[process, device] = GpuTimes()
        return found

    def times(self, start_ns: float, duration_ns: float) -> tuple[int, int] | None:
        """Start and end as whole nanoseconds; None, and counted, for what can be no time: not finite, negative, longer than a year."""
        if 0 <= start_ns <= LATEST_NS and 0 <= duration_ns <= LONGEST_NS:
            start = round(start_ns)
            return start, start + round(duration_ns)
        self.impossible += 1
        return None

    def kernel(self, gpu: GpuTimes, name: str, stream: int, start: int, end: int, correlation: int, operator: int | None) -> None:
        """A kernel ran. `operator` is the id that the operator which launched it has, None where it is not told."""
        found = gpu.kernels.add(name[:NAME_LENGTH], end - start)
        self._activity(gpu, COMMUNICATION if found.family == "communication" else COMPUTE, stream, start, end, correlation)
        if (
            found.tensor_cores == "no"
            and found.dtype is None
            and operator is not None
            and (operator in gpu.untyped or len(gpu.untyped) < MAX_TYPED)
        ):
            gpu.untyped[operator] = gpu.untyped.get(operator, 0) + end - start

    def copy(
        self,
        gpu: GpuTimes,
        way: tuple[str, str | None, str | None] | None,
        size_bytes: int | None,
        stream: int,
        start: int,
        end: int,
        correlation: int,
    ) -> None:
        """A copy, or where `way` is None a memset, ran."""
        self._activity(gpu, COPY, stream, start, end, correlation)
        if way is None:
            return
        found = gpu.copies.get(way)
        if found is None:
            found = gpu.copies[way if len(gpu.copies) < MAX_KEYS else ("", None, None)] = CopySum()
        found.count += 1
        found.total_ns += end - start
        found.size_bytes = None if size_bytes is None or found.size_bytes is None else found.size_bytes + size_bytes

    def _activity(self, gpu: GpuTimes, code: int, stream: int, start: int, end: int, correlation: int) -> None:
        self.gpu_activities += 1
        if self.gpu_activities > MAX_ACTIVITIES:
            raise Full
        gpu.starts.append(start)
        gpu.ends.append(end)
        gpu.classes.append(code)
        gpu.streams.append(stream)
        gpu.correlations.append(correlation)

    def thread(self, key: Hashable) -> int:
        """The thread's index in `hosts`; beyond MAX_KEYS all share the last one."""
        index = self.threads.get(key)
        if index is None:
            if len(self.hosts) >= MAX_KEYS:
                return MAX_KEYS - 1
            index = self.threads[key] = len(self.hosts)
            self.hosts.append(Host())
        return index

    def host(self, fold: Fold, start: int, end: int) -> None:
        """A thread was in something from `start` to `end`."""
        fold.add(start, end)
        self._intervals_at += 1
        if self._intervals_at % 100_000 == 0 and self._intervals() > MAX_ACTIVITIES:
            raise Full

    def _intervals(self) -> int:
        return sum(len(one.busy) + len(one.waiting) + len(one.loading) for one in self.hosts)

    def launch(self, thread: int, correlation: int, start: int, end: int) -> None:
        """A call gave the GPU something to do."""
        if len(self.launch_starts) >= MAX_ACTIVITIES:
            raise Full
        self.launch_correlations.append(correlation)
        self.launch_starts.append(start)
        self.launch_ends.append(end)
        self.launch_threads.append(thread)

    def step(self, process: Hashable, number: int, duration_ns: int) -> None:
        """A step that the profiler's schedule marked; one that is told twice counts once."""
        if len(self.steps) < MAX_STEPS:
            self.steps[process, number] = duration_ns
