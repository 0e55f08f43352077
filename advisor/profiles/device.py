"""From collected activities to one device's summary: unions, exposed times, the idle split, launch gaps."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from advisor.profiles.activity import COMMUNICATION, COMPUTE, COPY, NO_CORRELATION, Collected, GpuTimes, KernelSum
from advisor.profiles.intervals import EMPTY, Spans, Times, as_times, both, gaps, join, length_ns, minus, union
from advisor.profiles.summary import LAUNCH_GAP_S, TOP, Copies, Device, Idle, Kernel, Launches, Matrix
from advisor.text import Text, _

NS: Final = 1e-9

_NO_HOST: Final = Text(_("The profile holds no activity of the host: what the CPU did in idle times is not known."))
_NO_LOADER: Final = Text(_("No DataLoader is marked in the profile: waits for input, if any, are among the unknown."))
_NO_LINK: Final = Text(_("No launch of a GPU activity is in the profile: which thread let the GPU wait is not known."))
_OF_HOST: Final = ("idle.queued_s", "idle.loading_s", "idle.waiting_s", "idle.launching_s")
_OF_LAUNCHES: Final = ("launches.starved", "launches.unqueued", "launches.idle_in_starved_s", "launches.latency_p50_s")


@dataclass(frozen=True, slots=True)
class _Calls:
    """Launching calls, in the order of their correlation."""

    correlations: Times
    starts: Times
    ends: Times
    threads: NDArray[np.int32]

    def of(self, wanted: Times) -> NDArray[np.int64]:
        """Each activity's index among the calls; -1 where its launch is not in the profile."""
        if not self.correlations.size:
            return np.full(wanted.size, -1)
        at = np.minimum(np.searchsorted(self.correlations, wanted), self.correlations.size - 1)
        return np.where((self.correlations[at] == wanted) & (wanted != NO_CORRELATION), at, -1)


def calls(found: Collected) -> _Calls:
    """The profile's launching calls, sorted once for all devices."""
    correlations = as_times(found.launch_correlations)
    order = np.argsort(correlations, kind="stable")
    threads = np.frombuffer(found.launch_threads, np.int32) if found.launch_threads else np.zeros(0, np.int32)
    return _Calls(correlations[order], as_times(found.launch_starts)[order], as_times(found.launch_ends)[order], threads[order])


def device(found: Collected, made: _Calls, process: Hashable, number: int, gpu: GpuTimes, names: Mapping[int, str]) -> Device:
    """The summary of one device."""
    starts, ends, correlations = as_times(gpu.starts), as_times(gpu.ends), as_times(gpu.correlations)
    classes = np.frombuffer(gpu.classes, np.int8)
    streams = as_times(gpu.streams)
    compute, communication, copied = (
        union(starts[classes == code], ends[classes == code]) for code in (COMPUTE, COMMUNICATION, COPY)
    )
    busy = join(compute, communication, copied)
    holes = gaps(busy)
    span_ns = int(busy[1][-1] - busy[0][0]) if busy[0].size else 0
    idle = _idle(found, made, holes, starts, correlations)
    launches = _launches(made, holes, starts, ends, classes, streams, correlations)
    absent = {}
    if idle.launching_s is None:
        absent = dict.fromkeys(_OF_HOST, _NO_LINK if found.operators or found.calls else _NO_HOST)
    elif idle.loading_s is None:
        absent["idle.loading_s"] = _NO_LOADER
    if launches.starved is None:
        absent |= dict.fromkeys(_OF_LAUNCHES, _NO_LINK)
    kernels = sum(row.count for row in gpu.kernels.kinds.values())
    total_ns = sum(row.total_ns for row in gpu.kernels.kinds.values())
    rows = sorted(gpu.kernels.names.items(), key=lambda item: (-item[1].total_ns, item[0]))
    top = tuple(_kernel(name, row, total_ns) for name, row in rows[:TOP])
    return Device(
        device=None if number < 0 else number,
        process=None if process is None else str(process),
        name=names.get(number),
        streams=np.unique(streams).size,
        kernels=kernels,
        kernel_p50_s=_percentiles((ends - starts)[classes == COMPUTE])[0],
        kernel_total_s=total_ns * NS,
        span_s=span_ns * NS,
        busy_s=length_ns(busy) * NS,
        compute_s=length_ns(compute) * NS,
        communication_s=length_ns(communication) * NS,
        communication_exposed_s=length_ns(minus(communication, compute)) * NS,
        copies_s=length_ns(copied) * NS,
        copies_exposed_s=length_ns(minus(copied, join(compute, communication))) * NS,
        idle=idle,
        launches=launches,
        top=top,
        other_kernels=kernels - sum(one.count for one in top),
        other_kernels_s=max(total_ns * NS - sum(one.total_s for one in top), 0.0),
        names_folded=gpu.kernels.folded,
        matrix=_matrix(found, gpu, rows, total_ns),
        copies=_copies(gpu),
        absent=absent,
    )


def _kernel(name: str, row: KernelSum, total_ns: int) -> Kernel:
    return Kernel(
        name,
        row.kind.family,
        row.kind.tensor_cores,
        row.kind.dtype,
        row.count,
        row.total_ns * NS,
        row.total_ns / row.count * NS,
        row.longest_ns * NS,
        row.total_ns / total_ns if total_ns else 0.0,
    )


def _idle(found: Collected, made: _Calls, holes: Spans, starts: Times, correlations: Times) -> Idle:
    """The holes by what the thread did that ended them."""
    total = length_ns(holes)
    longest = int((holes[1] - holes[0]).max()) * NS if holes[0].size else 0.0
    every = made.of(correlations)
    linked = made.threads[every[every >= 0]]
    if not linked.size:  # no thread to charge a gap to
        return Idle(total * NS, None, None, None, None, total * NS, longest)
    order = np.argsort(starts, kind="stable")
    call = every[order[np.searchsorted(starts[order], holes[1])]]
    threads = np.where(call >= 0, made.threads[call], np.bincount(linked).argmax())
    # the host's part of a gap ends when the call returns that launched what ended it; a pageable copy's call outlasts the gap
    by_host = np.where(call >= 0, np.clip(made.ends[call], *holes), holes[1])
    queued = int((holes[1] - by_host).sum())
    loading = waiting = launching = 0
    for thread in np.unique(threads):
        of_thread = threads == thread
        left = union(holes[0][of_thread], by_host[of_thread])
        host = found.hosts[thread]
        parts = []
        for fold in (host.loading, host.waiting, host.busy):
            did = fold.spans()
            parts.append(length_ns(both(left, did)))
            left = minus(left, did)
        loading, waiting, launching = loading + parts[0], waiting + parts[1], launching + parts[2]
    unknown = total - queued - loading - waiting - launching
    return Idle(
        total * NS,
        queued * NS,
        loading * NS if found.loads else None,
        waiting * NS,
        launching * NS,
        unknown * NS,
        longest,
    )


def _launches(
    made: _Calls, holes: Spans, starts: Times, ends: Times, classes: NDArray[np.int8], streams: Times, correlations: Times
) -> Launches:
    kernels = np.flatnonzero(classes != COPY)
    order = kernels[np.lexsort((starts[kernels], streams[kernels]))]
    starts, ends, streams, correlations = starts[order], ends[order], streams[order], correlations[order]
    call = made.of(correlations)
    gap = starts[1:] - ends[:-1]
    short = (streams[1:] == streams[:-1]) & (gap > 0) & (gap <= LAUNCH_GAP_S / NS)
    before, after = ends[:-1][short], starts[1:][short]
    lengths = gap[short]
    starved = unqueued = idle_in_starved = None
    latency = EMPTY[0]
    linked = call >= 0
    if linked.any():
        unready = (streams[1:] == streams[:-1]) & (call[1:] >= 0) & (made.starts[call[1:]] >= ends[:-1])
        unqueued = int(unready.sum())
        late = unready[short]
        starved = int(late.sum())
        idle_in_starved = length_ns(both(union(before[late], after[late]), holes)) * NS
        # of a CUDA graph's kernels, which share one call, the first
        in_time = np.flatnonzero(linked)[np.argsort(starts[linked], kind="stable")]
        first = in_time[np.unique(call[in_time], return_index=True)[1]]
        latency = starts[first] - made.starts[call[first]]
        latency = latency[latency >= 0]
    return Launches(
        lengths.size,
        int(lengths.sum()) * NS,
        *_percentiles(lengths),
        starved,
        unqueued,
        idle_in_starved,
        *_percentiles(latency),
        int((~linked).sum()),
    )


def _percentiles(values: Times) -> tuple[float | None, float | None]:
    if not values.size:
        return None, None
    p50, p95 = np.percentile(values, (50, 95))
    return float(p50) * NS, float(p95) * NS


def _matrix(found: Collected, gpu: GpuTimes, rows: list[tuple[str, KernelSum]], total_ns: int) -> Matrix:
    eligible = [row for row in gpu.kernels.kinds.values() if row.kind.eligible]
    sums = {on: sum(row.total_ns for row in eligible if row.kind.tensor_cores == on) for on in ("yes", "no", "unknown")}
    off = [row for row in eligible if row.kind.tensor_cores == "no"]
    by_dtype: dict[str, int] = {}
    for row in off:
        by_dtype[row.kind.dtype or "unknown"] = by_dtype.get(row.kind.dtype or "unknown", 0) + row.total_ns
    for operator, spent in gpu.untyped.items():
        if dtype := found.typed.get(operator):
            by_dtype[dtype] = by_dtype.get(dtype, 0) + spent
            by_dtype["unknown"] -= spent
    return Matrix(
        sum(sums.values()) * NS,
        sums["yes"] * NS,
        sums["no"] * NS,
        sums["unknown"] * NS,
        sum(row.count for row in off),
        {dtype: spent * NS for dtype, spent in sorted(by_dtype.items(), key=lambda item: -item[1]) if spent},
        tuple(_kernel(name, row, total_ns) for name, row in rows if row.kind.eligible and row.kind.tensor_cores == "no")[:TOP],
    )


def _copies(gpu: GpuTimes) -> tuple[Copies, ...]:
    out = []
    for (direction, source, target), row in sorted(gpu.copies.items(), key=lambda item: -item[1].total_ns):
        host = {"HtoD": source, "DtoH": target}.get(direction, "Device" if direction == "DtoD" else None)
        pageable = None if host is None else host == "Pageable"
        out.append(Copies(direction, source, target, pageable, row.count, row.size_bytes, row.total_ns * NS))
    return tuple(out[:TOP])
