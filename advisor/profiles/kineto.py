"""Reads a torch.profiler (Kineto) JSON trace.

Written against Kineto's output_json.cpp and public traces of 2022 to 2024 (V100, A100, MI250), and one of PyTorch 2.13. Times (`ts`, `dur`) are microseconds
with three decimals, whatever `displayTimeUnit` says: that is what a viewer shows. Traces before mid-2024 count from 1970, where a double
holds a quarter of a microsecond; later ones from `baseTimeNanoseconds`. Events come in no order.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from advisor.profiles.activity import MAX_TYPED, NO_CORRELATION, Collected, Full
from advisor.profiles.kernels import call, copy, is_loader, step
from advisor.profiles.stream import CUT, DAMAGED, TOO_LARGE, UNREADABLE_END, ProfileError, Trace
from advisor.profiles.summary import NO_ORDER, Source
from advisor.text import Text, _

_DTYPES: Final = {
    "float": "fp32",
    "double": "fp64",
    "c10::half": "fp16",
    "c10::bfloat16": "bf16",
    "c10::float8_e4m3fn": "fp8",
    "c10::float8_e5m2": "fp8",
    "signed char": "int8",
}
"""Kineto's `Input type` of a tensor (with record_shapes=True)."""
_MATRIX: Final = re.compile(r"::(_?(mm|addmm|bmm|baddbmm|linear|matmul|addmv|scaled_\w+|\w*attention\w*)|\w*conv\w*)$")


_EARLY: Final = {
    CUT: _("The file ends in the middle, as of a run that was killed: the {events:,} events before that are judged."),
    DAMAGED: _("The file is damaged from some point on: the {events:,} events before that are judged."),
    TOO_LARGE: _("The file is larger than what is read of one: its first {events:,} events are judged."),
    UNREADABLE_END: _("Behind its {events:,} events the file breaks off or is no JSON: whose trace it is may be unknown."),
}


def read(path: Path) -> tuple[Source, Collected]:
    """What the trace tells; ProfileError where it is none. A trace that breaks off gives what it has."""
    trace, found = Trace(path), Collected()
    full = any_event = False
    try:
        for event in trace.events():
            found.events += 1
            any_event |= isinstance(event.get("ph"), str)
            if event.get("ph") != "X":
                continue
            category = event.get("cat")
            if isinstance(category, str) and (take := _TAKE.get(category)):
                take(found, event)
    except Full:
        full = True
    if not any_event:
        raise ProfileError(f"{path} holds no event of a profiler: it is no trace, or breaks off before its first event.")
    return _source(trace, found, full), found


def _source(trace: Trace, found: Collected, full: bool) -> Source:
    notes = []
    complete = trace.ended_early in (None, UNREADABLE_END) and not full
    if trace.ended_early:
        notes.append(Text(_EARLY[trace.ended_early], {"events": found.events}))
    if full:
        notes.append(
            Text(
                _("The trace has more activities than are kept: what is judged are its first {events:,} events."),
                {"events": found.events},
            )
        )
    if not complete:
        notes.append(NO_ORDER)
    if trace.broken:
        notes.append(
            Text(_("{count:,} places in the file are not JSON; the events there are left out."), {"count": trace.broken})
        )
    if found.impossible:
        notes.append(
            Text(
                _(
                    "{count:,} events have times that cannot be true (negative, not numbers, longer than a year) and are left out."
                ),
                {"count": found.impossible},
            )
        )
    distributed = trace.metadata.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    names = {}
    properties = trace.metadata.get("deviceProperties")
    for one in properties[:256] if isinstance(properties, list) else ():
        if isinstance(one, dict) and isinstance(one.get("id"), int) and isinstance(one.get("name"), str):
            names[one["id"]] = one["name"][:100]
    return Source(
        "kineto",
        found.events,
        trace.read_bytes,
        complete=complete,
        rank=_whole(distributed.get("rank")),
        world_size=_whole(distributed.get("world_size")),
        gpu_names=names,
        notes=tuple(notes),
    )


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else None


def _number(value: object) -> float:
    """NaN, which is no time, for what is no number."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan


def _times(found: Collected, event: dict[str, Any]) -> tuple[int, int] | None:
    start, duration = _number(event.get("ts")), _number(event.get("dur"))
    if start * 0 or duration * 0:  # infinite
        start = math.nan
    return found.times(start * 1000, duration * 1000)


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _name(event: dict[str, Any]) -> str:
    name = event.get("name")
    return name if isinstance(name, str) else ""


def _gpu(found: Collected, event: dict[str, Any], kernel: bool | None) -> None:
    """A kernel, a copy (False) or a memset (None). Kineto gives the device as `pid` and the stream as `tid` too."""
    times = _times(found, event)
    if times is None:
        return
    if not times[0]:  # CUPTI's "no time could be collected"
        found.impossible += 1
        return
    arguments = _arguments(event)
    device = _whole(arguments.get("device", event.get("pid")))
    stream = _whole(arguments.get("stream", event.get("tid")))
    gpu = found.gpu(None, -1 if device is None else device)
    correlation = _whole(arguments.get("correlation"))
    common = (-1 if stream is None else stream, *times, NO_CORRELATION if correlation is None else correlation)
    if kernel:
        found.kernel(gpu, _name(event), *common, _whole(arguments.get("External id", arguments.get("external id"))))
    else:
        size = _whole(arguments.get("bytes"))
        found.copy(gpu, None if kernel is None else copy(_name(event)[:100]), size, *common)


def _thread(event: dict[str, Any]) -> tuple[str, str]:
    return str(event.get("pid"))[:40], str(event.get("tid"))[:40]


def _call(found: Collected, event: dict[str, Any]) -> None:
    """A CUDA or HIP call."""
    times = _times(found, event)
    if times is None:
        return
    found.calls += 1
    thread = found.thread(_thread(event))
    waits, launches = call(_name(event)[:100])
    host = found.hosts[thread]
    found.host(host.waiting if waits else host.busy, *times)
    if launches:
        correlation = _whole(_arguments(event).get("correlation"))
        if correlation is not None:
            found.launch(thread, correlation, *times)


def _operator(found: Collected, event: dict[str, Any]) -> None:
    """An operator, or a range that PyTorch or the program marked: a step, the wait for a batch."""
    name = _name(event)
    number, loader = step(name), is_loader(name)
    marked = event.get("cat") == "user_annotation"
    if number is None and marked and not loader:
        return  # a range tells where the program was, not that it worked
    times = _times(found, event)
    if times is None:
        return
    thread = _thread(event)
    if number is not None:
        found.step(thread[0], number, times[1] - times[0])
        return
    host = found.hosts[found.thread(thread)]
    if loader:
        found.loads += 1
        found.host(host.loading, *times)
        return
    found.operators += 1
    found.host(host.busy, *times)
    arguments = _arguments(event)
    types, identity = arguments.get("Input type"), _whole(arguments.get("External id"))
    if isinstance(types, list) and identity is not None and len(found.typed) < MAX_TYPED and _MATRIX.search(name[:60]):
        dtype = next((_DTYPES[one.lower()] for one in types if isinstance(one, str) and one.lower() in _DTYPES), None)
        if dtype:
            found.typed[identity] = dtype


_TAKE: Final[dict[str, Callable[[Collected, dict[str, Any]], None]]] = {
    **dict.fromkeys(("kernel", "Kernel"), lambda found, event: _gpu(found, event, True)),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), lambda found, event: _gpu(found, event, False)),
    **dict.fromkeys(("gpu_memset", "Memset"), lambda found, event: _gpu(found, event, None)),
    **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime", "hip_runtime"), _call),
    **dict.fromkeys(("cpu_op", "Operator", "user_annotation"), _operator),
}
"""By `cat`; the capitalised ones are of PyTorch's first profiler. `gpu_user_annotation` repeats host ranges on the GPU and is no activity."""
