"""What a profile tells, as values. Durations are seconds, shares are of the device's span; None is "not told", with its reason in `absent`.

For each device (as one process used it):

- *span*: from the first start to the last end of its activities. What the host did before and after is not in it.
- *busy*: the union of its kernels, copies and memsets, over all streams. *idle*: the rest of the span.
- *compute*: the union of its kernels that are no communication.
- *communication exposed*: when communication kernels ran and no compute did. *copies exposed*: when a copy or memset ran and no kernel.
  So compute + communication exposed + copies exposed + idle = span.
- *idle split*: each gap belongs to the thread that launched the activity which ended it (told by correlation; else the thread that launched
  most). What of the gap came after that launch is *queued*: the host had done its part, and the GPU took its time or waited for another
  stream. What came before is, by what the thread did, in this order: *loading* (inside a DataLoader's `__next__`), *waiting* (inside a
  synchronisation or a copy that blocks), *launching* (inside an operator or another CUDA call), else *unknown*: Python, or a wait that no
  profile shows.
- *launch gap*: at most LAUNCH_GAP_S between two consecutive kernels of a stream. It *starved* where the call that launched the second
  kernel began after the first had ended: the stream had nothing queued. `unqueued` counts such kernels after gaps of any length.
  *launch latency*: from a call's start to its first kernel's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from advisor.text import Text, _

LAUNCH_GAP_S: Final = 100e-6
"""Longer holes are no matter of one launch: the idle split tells their cause."""
TOP: Final = 20

NO_ORDER: Final = Text(
    _("Events are in no order of time: kernels of any moment may be missing, and idle times are at most those told here.")
)

Verdict: TypeAlias = Literal["supports", "speaks against", "cannot tell"]


@dataclass(frozen=True, slots=True)
class Source:
    """The file: its kind, how much was read, whether to its end, and whose it is. `rank` is None where it does not tell."""

    kind: Literal["kineto", "nsight"]
    events: int
    read_bytes: int
    complete: bool
    rank: int | None = None
    world_size: int | None = None
    gpu_names: Mapping[int, str] = field(default_factory=dict)
    notes: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class Idle:
    """The idle time by cause. `loading_s` is None where no DataLoader is in the profile, all causes where no launch is."""

    total_s: float
    queued_s: float | None
    loading_s: float | None
    waiting_s: float | None
    launching_s: float | None
    unknown_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class Launches:
    """Gaps between kernels of a stream, and how long launches took to reach the GPU.

    `gaps_s` is the sum over streams; `idle_in_starved_s` the part of starved gaps in which the whole device did nothing.
    """

    gaps: int
    gaps_s: float
    gap_p50_s: float | None
    gap_p95_s: float | None
    starved: int | None
    unqueued: int | None
    idle_in_starved_s: float | None
    latency_p50_s: float | None
    latency_p95_s: float | None
    uncorrelated: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """All runs of one kernel. `share` is of the device's kernel time in all."""

    name: str
    family: str
    tensor_cores: str
    dtype: str | None
    count: int
    total_s: float
    mean_s: float
    longest_s: float
    share: float


@dataclass(frozen=True, slots=True)
class Matrix:
    """Kernels whose work tensor cores could do, by whether their names say that they did. `by_dtype` is of those that did not."""

    total_s: float
    on_s: float
    off_s: float
    untold_s: float
    off_count: int
    off_by_dtype_s: Mapping[str, float]
    off: tuple[Kernel, ...]


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of one direction and pair of memory kinds; `pageable` is None where a kind is not told."""

    direction: str
    source: str | None
    target: str | None
    pageable: bool | None
    count: int
    size_bytes: int | None
    total_s: float


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU as one process used it. `kernel_p50_s` is the median of its kernels that are no communication."""

    device: int | None
    process: str | None
    name: str | None
    streams: int
    kernels: int
    kernel_p50_s: float | None
    kernel_total_s: float
    span_s: float
    busy_s: float
    compute_s: float
    communication_s: float
    communication_exposed_s: float
    copies_s: float
    copies_exposed_s: float
    idle: Idle
    launches: Launches
    top: tuple[Kernel, ...]
    other_kernels: int
    other_kernels_s: float
    names_folded: bool
    matrix: Matrix
    copies: tuple[Copies, ...]
    absent: Mapping[str, Text]


@dataclass(frozen=True, slots=True)
class Steps:
    """What the profiler's schedule marked as steps, over the file's processes."""

    count: int
    p50_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the profile says of one rule's claim, with the numbers that it says it by."""

    rule: str
    verdict: Verdict
    text: Text
    numbers: Mapping[str, float | int | None]


@dataclass(frozen=True, slots=True)
class Profile:
    """All that one file tells. `absent` says why there is no `devices` or no `steps`."""

    source: Source
    devices: tuple[Device, ...]
    steps: Steps | None
    evidence: tuple[Evidence, ...]
    absent: Mapping[str, Text]

    def as_json(self) -> dict[str, Any]:
        """The object that `fettle profile --json` prints; texts in English."""
        return {name: _plain(value) for name, value in _fields(self).items()}


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _plain(value: Any) -> Any:
    if isinstance(value, Text):
        return value.english()
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(one) for name, one in _fields(value).items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return round(value, 9) if isinstance(value, float) else value
