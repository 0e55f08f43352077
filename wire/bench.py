"""What `fettle bench` measured on one node: the file that it writes, and what the server takes.

A name says what was measured and at which size, so that scores of one name can be compared: `matmul_bf16_8192`,
`all_reduce_64mib_2gpus`. More is better in all of them.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from wire.unfit import unfit

FORMAT: Final = 1
MAX_BYTES: Final = 2_000_000
"""Of a report; one of 16 GPUs has about 200 kB."""
MAX_GPUS: Final = 64
MAX_SCORES: Final = 4_000
GROUPS: Final = {
    "matmul": "matmul", "memory": "memory", "h2d": "host", "d2h": "host", "peer": "peer", "all": "all_reduce", "disk": "disk",
}  # fmt: skip
"""Kinds by a name's first word."""

Unit: TypeAlias = Literal["flop_per_second", "bytes_per_second"]
Name: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,59}\Z")]
Word: TypeAlias = Annotated[str, Meta(max_length=100)]
Uuid: TypeAlias = Annotated[str, Meta(max_length=80)]
Sentence: TypeAlias = Annotated[str, Meta(max_length=300)]
Rate: TypeAlias = Annotated[float, Meta(gt=0, le=1e18)]
Reading: TypeAlias = Annotated[float, Meta(ge=0, le=1e15)]
Degrees: TypeAlias = Annotated[float, Meta(ge=-100, le=1000)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
Words: TypeAlias = Annotated[dict[Annotated[str, Meta(max_length=60)], Word], Meta(max_length=60)]


class BenchError(ValueError):
    """A report cannot be used; the message says what is wrong and where, without its first words' capital."""


class Score(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One test on one GPU, or on the node where `gpu` is empty. `value` is the median's rate, `p5` that of the slow ones."""

    name: Name
    gpu: Uuid = ""
    value: Rate
    p5: Annotated[float, Meta(ge=0, le=1e18)]  # 0: of a slice in which a disk gave nothing
    p95: Rate
    unit: Unit
    iterations: Count  # timed ones
    warm_up: Count = 0
    sm_clock_mhz: Reading | None = None  # median while it was timed
    power_w: Reading | None = None
    temperature_c: Degrees | None = None


class Missing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test that has no score, and why."""

    name: Name
    gpu: Uuid = ""
    reason: Sentence


class BenchGpu(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU and the state that it was measured in; None: it was not told."""

    uuid: Uuid
    index: Annotated[int, Meta(ge=0, lt=1024)]
    model: Word
    pci_bus_id: Word = ""
    mem_total_bytes: Reading | None = None
    power_limit_w: Reading | None = None
    power_limit_default_w: Reading | None = None
    sm_clock_max_mhz: Reading | None = None
    sm_clock_set_mhz: Reading | None = None  # the applications clock; below the highest: set by somebody
    mem_clock_mhz: Reading | None = None
    clock_event_reasons: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None  # all bits that were seen during the run
    pcie_link_gen_max: Annotated[int, Meta(ge=0, le=100)] | None = None
    pcie_link_width_max: Annotated[int, Meta(ge=0, le=1024)] | None = None
    nvlink_links: Annotated[int, Meta(ge=0, le=1024)] | None = None
    nvlink_bytes_per_s_per_link: Reading | None = None
    compute_capability: Annotated[str, Meta(max_length=10)] = ""
    local_cpus: Sentence = ""  # its process ran there: the cores next to the GPU
    settled: bool | None = None  # None: it was not waited for
    temperature_slope_c_per_min: Annotated[float, Meta(ge=-1e6, le=1e6)] | None = None


class BenchReport(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run on one node."""

    format: Literal[1] = FORMAT
    node: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")]
    at: Annotated[float, Meta(ge=1_577_836_800, le=4_102_444_800)]  # when it began, in epoch seconds
    seconds: Reading
    protocol: Literal["full", "quick"]
    shared: bool = False  # other processes held a GPU of it
    interrupted: bool = False
    versions: Words = field(default_factory=dict)  # driver, cuda, nccl, torch, cudnn, python, fettle
    environment: Words = field(default_factory=dict)  # what of the environment bears on it: NCCL_*
    gpus: Annotated[tuple[BenchGpu, ...], Meta(max_length=MAX_GPUS)] = ()
    scores: Annotated[tuple[Score, ...], Meta(max_length=MAX_SCORES)] = ()
    missing: Annotated[tuple[Missing, ...], Meta(max_length=MAX_SCORES)] = ()


def group(name: str) -> str:
    """What kind of test a score's name tells: matmul, memory, host, peer, all_reduce or disk; empty: none that is known."""
    return GROUPS.get(name.partition("_")[0], "")


def decode(data: bytes) -> BenchReport:
    """The report of a file or a request; BenchError where it is none."""
    if len(data) > MAX_BYTES:
        raise BenchError(f"it is larger than {MAX_BYTES // 1_000_000} MB, which no report is")
    try:
        report = msgspec.json.decode(data, type=BenchReport)
    except msgspec.ValidationError as error:
        raise BenchError(unfit(error, BenchReport)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BenchError(f"it is not JSON: {error}") from None
    known = {gpu.uuid for gpu in report.gpus}
    if len(known) != len(report.gpus) or "" in known:
        raise BenchError("it does not fit: every GPU needs a UUID of its own - at `$.gpus`")
    seen: set[tuple[str, str]] = set()
    for number, score in enumerate(report.scores):
        if score.gpu not in known and score.gpu:
            raise BenchError(f"it does not fit: the GPU is not among those of the report - at `$.scores[{number}].gpu`")
        if not score.p5 <= score.value <= score.p95:
            raise BenchError(f"it does not fit: the median must lie between p5 and p95 - at `$.scores[{number}]`")
        if (score.gpu, score.name) in seen:
            raise BenchError(f"it does not fit: the test occurs twice for this GPU - at `$.scores[{number}].name`")
        seen.add((score.gpu, score.name))
    return report


def encode(report: BenchReport) -> bytes:
    """The report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n"
