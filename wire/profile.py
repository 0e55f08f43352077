"""What `fettle profile --send` tells the server of a trace: sums, the heaviest kernels, a verdict for each rule; never the trace.

Durations are seconds over all GPUs of the profile. None is "the profile does not tell".
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from wire.unfit import unfit

FORMAT: Final = 1
API: Final = "api/v1/profiles/"
"""Where the server takes it."""
MAX_BYTES: Final = 64_000
"""Of a report; one with twenty kernels of the longest names has about 12 kB."""
MAX_KERNELS: Final = 20
NAME_CHARS: Final = 300

Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**12)]
Word: TypeAlias = Annotated[str, Meta(max_length=100)]
Slug: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9-]{0,59}\Z")]


class ProfileError(ValueError):
    """A report cannot be used; the message says what is wrong and where, without its first words' capital."""


class TopKernel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All runs of one kernel; `share` is of all kernels' time."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_CHARS)]
    count: Annotated[int, Meta(ge=1, le=10**12)]
    total_s: Seconds
    share: Share
    tensor_cores: Literal["yes", "no", "unknown"] = "unknown"
    dtype: Annotated[str, Meta(max_length=10)] = ""


class Said(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the profile says of one rule's claim."""

    rule: Slug
    verdict: Literal["supports", "speaks against", "cannot tell"]


class ProfileReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One profile. It is of the job that `job` names, or that holds a GPU with process `pid` of the node.

    compute + communication exposed + copies exposed + idle = span; `missed_s` is the time of matrix kernels off the tensor cores,
    `missed_fp32_s` and `missed_half_s` (16 and 8 bits) are parts of it, `untold_s` that of kernels whose names do not tell.
    """

    format: Literal[1] = FORMAT
    node: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")]
    at: Annotated[float, Meta(ge=1_577_836_800, le=4_102_444_800)]  # when the trace was written, in epoch seconds
    job: Annotated[str, Meta(max_length=300)] = ""
    pid: Annotated[int, Meta(ge=1, le=(1 << 31) - 1)] | None = None
    kind: Literal["kineto", "nsight"]
    complete: bool
    events: Count
    rank: Annotated[int, Meta(ge=0, le=10**7)] | None = None
    world_size: Annotated[int, Meta(ge=0, le=10**7)] | None = None
    gpus: Annotated[int, Meta(ge=1, le=4096)]
    gpu_names: Annotated[tuple[Word, ...], Meta(max_length=16)] = ()
    steps: Count = 0
    step_p50_s: Seconds | None = None
    span_s: Annotated[float, Meta(gt=0, le=1e9)]
    compute_s: Seconds
    communication_s: Seconds
    communication_exposed_s: Seconds
    copies_exposed_s: Seconds
    idle_s: Seconds
    idle_queued_s: Seconds | None = None
    idle_loading_s: Seconds | None = None
    idle_waiting_s: Seconds | None = None
    idle_launching_s: Seconds | None = None
    idle_unknown_s: Seconds = 0.0
    kernels: Count
    kernel_total_s: Seconds
    kernel_p50_s: Seconds | None = None
    unqueued: Count | None = None
    pageable_s: Seconds | None = None  # copies to the GPUs from pageable memory
    pageable_copies: Count = 0
    matrix_s: Seconds = 0.0
    missed_s: Seconds = 0.0
    missed_fp32_s: Seconds = 0.0
    missed_half_s: Seconds = 0.0
    untold_s: Seconds = 0.0
    top: Annotated[tuple[TopKernel, ...], Meta(max_length=MAX_KERNELS)] = ()
    said: Annotated[tuple[Said, ...], Meta(max_length=40)] = ()


_PARTS: Final = ("compute_s", "communication_exposed_s", "copies_exposed_s", "idle_s", "idle_queued_s", "idle_loading_s", "idle_waiting_s", "idle_launching_s", "idle_unknown_s")  # fmt: skip
_ROUNDING: Final = 1.001


def decode(data: bytes) -> ProfileReport:
    """The report of a request; ProfileError where it is none, or where a part of it is larger than the whole."""
    if len(data) > MAX_BYTES:
        raise ProfileError(f"it is larger than {MAX_BYTES // 1000} kB, which no summary is: send the summary, not the trace")
    try:
        report = msgspec.json.decode(data, type=ProfileReport)
    except msgspec.ValidationError as error:
        raise ProfileError(unfit(error, ProfileReport)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProfileError(f"it is not JSON: {error}") from None
    if not report.job and report.pid is None:
        raise ProfileError("it does not fit: it names neither a job nor a process - at `$.job`")
    if report.job and not report.job.startswith(f"{report.node}/"):
        raise ProfileError("it does not fit: a job begins with its node's name and a slash - at `$.job`")
    for name in _PARTS:
        if (getattr(report, name) or 0.0) > report.span_s * _ROUNDING:
            raise ProfileError(f"it does not fit: a part is longer than the whole - at `$.{name}`")
    if report.missed_s > report.kernel_total_s * _ROUNDING:
        raise ProfileError("it does not fit: a part is longer than the whole - at `$.missed_s`")
    for name in ("missed_fp32_s", "missed_half_s"):
        if getattr(report, name) > report.missed_s * _ROUNDING:
            raise ProfileError(f"it does not fit: a part is longer than the whole - at `$.{name}`")
    return report


def encode(report: ProfileReport) -> bytes:
    """The report as JSON."""
    return msgspec.json.encode(report)
