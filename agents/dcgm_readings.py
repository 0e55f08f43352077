"""What one answer of dcgm-exporter says of each GPU, in the registry's terms. Pure: samples in, readings out.

A GPU that is split into instances is told of by its instances alone, and each is a GPU of its own too, with its memory and the
profiling of its slice; an exporter does not tell its UUID, so that its parent's, its profile and its number stand for it. What they share (power, temperature, clocks) is the
GPU's when all say the same; memory and traffic add up; shares of time are weighted by compute slices, of 7 (A30: 4).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from agents.fitted_hello import MAX_TEXT
from agents.outbox import plain
from agents.samples import Sample
from wire import dcgm_fields
from wire.dcgm_fields import BY_NAME, Field
from wire.messages import Cell
from wire.metrics import Metric, accept, sent

STALE_S: Final = 120.0
"""A sample whose own time is further than this from now says nothing of now; an answer that never changes neither."""
GPU_METRICS: Final = tuple(sent("gpu"))
LABELS: Final = ("pod", "namespace", "container", "hpc_job")
_OTHER_ENTITIES: Final = ("nvlink", "nvswitch", "cpu", "cpucore")
_UUID: Final = re.compile(r"GPU-[A-Za-z0-9-]{4,72}")
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_PROFILE: Final = re.compile(r"[0-9a-z.+]{1,20}")
_ITS_OWN: Final = frozenset((250, 251, 252, 253, *range(1001, 1017)))
"""Fields of an instance that are not its card's."""
_SLICES: Final = re.compile(r"(?:\d+c\.)?(\d+)g\.")
_FP64_BLANK: Final = 140737488355328.0
_INT32_BLANK: Final = 0x7FFFFFF0
_INT64_BLANK: Final = 0x7FFFFFFFFFFFFFF0
_BLANK_REASONS: Final = {1: "not_found", 2: "unsupported", 3: "not_permitted"}
BUSY_PCT: Final = 90
"""At this share of time with a kernel resident the engine's own activity cannot be nought."""
_UTIL: Final = next(i for i, metric in enumerate(GPU_METRICS) if metric.name == "gpu_util_pct")
PROFILED: Final = tuple(i for i, metric in enumerate(GPU_METRICS) if metric.dcgm is not None and 1001 <= metric.dcgm <= 1008)
_ROUNDING: Final = 1.005
"""Two counters that are not read at the same instant: full load may read 100.3 %."""


@dataclass(slots=True)
class GpuAnswer:
    """One GPU or instance of one answer. `own[id]`, `parts[id][instance]`: value and unit; ids in `late` were told of another time."""

    uuid: str
    index: int
    name: str = "unknown GPU"
    pci_bus_id: str | None = None
    driver: str | None = None
    cuda: str | None = None
    hosts: set[str] = field(default_factory=set)
    labels: dict[str, set[str]] = field(default_factory=dict)
    labels_of: dict[str, dict[str, set[str]]] = field(default_factory=dict)  # of each instance
    profiles: dict[str, str] = field(default_factory=dict)  # instance: profile
    own: dict[int, tuple[float, Field]] = field(default_factory=dict)
    parts: dict[int, dict[str, tuple[float, Field]]] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    instances: tuple[str, ...] = ()
    parent: str | None = None
    profile: str | None = None
    instance: int | None = None

    @property
    def xid(self) -> int | None:
        """The last XID's code, for ever; 0: none since the exporter began; None: it does not tell."""
        told = [self.own[dcgm_fields.XID][0]] if dcgm_fields.XID in self.own else []
        told += [value for value, _ in self.parts.get(dcgm_fields.XID, {}).values()]
        return max((int(value) for value in told if 0 <= value < 10_000), default=None)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """Equal while the exporter repeats itself; empty where nothing is told that moves on a live GPU."""
        if not any(number in self.own or number in self.parts for number in (155, 156, 157)):
            return ()
        return (tuple(self.own.items()), tuple((number, tuple(parts.items())) for number, parts in self.parts.items()))


def gpus(samples: Iterable[Sample], now: float) -> dict[str, GpuAnswer]:
    """Every GPU that the samples tell of, by UUID; `now` in epoch seconds."""
    found: dict[str, GpuAnswer] = {}
    for sample in samples:
        known = BY_NAME.get(sample.name)
        labels = sample.labels
        uuid = labels.get("UUID") or labels.get("uuid", "")
        if known is None or any(label in labels for label in _OTHER_ENTITIES):
            continue
        if not _UUID.fullmatch(uuid) or not uuid.strip("GPU-0"):  # a nil UUID names no GPU
            continue
        gpu = found.get(uuid)
        if gpu is None:
            number = labels.get("gpu", "")
            gpu = found[uuid] = GpuAnswer(uuid, int(number) if _NUMBER.fullmatch(number) else len(found))
        _describe(gpu, labels)
        if sample.at is not None and abs(now - sample.at) > STALE_S:
            gpu.late.add(known.id)
            continue
        _put(gpu, known, sample)
    return {one.uuid: one for gpu in found.values() for one in (gpu, *_instances(gpu))}


def _instances(gpu: GpuAnswer) -> list[GpuAnswer]:
    """Each instance with what is its own; power, temperature and health are the card's, and would be counted several times."""
    made = []
    for instance, profile in gpu.profiles.items():
        one = GpuAnswer(
            uuid=f"{gpu.uuid}:{profile.replace('+', '.')}:{instance}",
            index=gpu.index,
            name=f"{gpu.name} MIG {profile}",
            pci_bus_id=gpu.pci_bus_id,
            hosts=gpu.hosts,
            labels=gpu.labels_of.get(instance, {}),
            own={number: parts[instance] for number, parts in gpu.parts.items() if number in _ITS_OWN and instance in parts},
            parent=gpu.uuid,
            profile=profile,
            instance=int(instance),
        )
        made.append(one)
    gpu.instances = tuple(sorted(one.uuid for one in made))
    return made


def _describe(gpu: GpuAnswer, labels: dict[str, str]) -> None:
    gpu.name = _text(labels, "modelName") or gpu.name
    gpu.pci_bus_id = _text(labels, "pci_bus_id") or gpu.pci_bus_id
    gpu.driver = _text(labels, "DCGM_FI_DRIVER_VERSION") or gpu.driver
    gpu.cuda = _text(labels, "DCGM_FI_CUDA_DRIVER_VERSION") or gpu.cuda
    if host := _text(labels, "Hostname") or _text(labels, "hostname"):
        gpu.hosts.add(host)
    instance = labels.get("GPU_I_ID", "")
    if _NUMBER.fullmatch(instance):
        profile = labels.get("GPU_I_PROFILE", "")
        gpu.profiles[instance] = profile if _PROFILE.fullmatch(profile) else "unknown"
    for name in LABELS:
        if value := labels.get(f"exported_{name}") or labels.get(name):
            gpu.labels.setdefault(name, set()).add(value)
            if instance in gpu.profiles:
                gpu.labels_of.setdefault(instance, {}).setdefault(name, set()).add(value)


def _text(labels: dict[str, str], name: str) -> str:
    """What the exporter says, as long as a fact may be and without what moves a cursor."""
    text = labels.get(name, "")
    return text if len(text) <= MAX_TEXT and text.isprintable() else plain(text)


def _put(gpu: GpuAnswer, known: Field, sample: Sample) -> None:
    """Keep the first of equal samples: a shared GPU is repeated for every pod that may use it, and is not to be added up."""
    instance = sample.labels.get("GPU_I_ID")
    if instance in gpu.profiles:
        gpu.parts.setdefault(known.id, {}).setdefault(instance, (sample.value, known))
        return
    before = gpu.own.get(known.id)
    if before is None or before[1].unit == "percent_or_ratio":
        gpu.own[known.id] = (sample.value, known)


@dataclass(slots=True)
class Habits:
    """What an exporter was seen to do: whether it gives DCGM_FI_DEV_GPU_UTIL_RATIO in percent (4.6) or as a ratio (4.7)."""

    percent: bool | None = None

    def settle(self, value: float) -> float | str:
        """`value` in percent, or the reason why that is not known yet: a 1 alone may mean 1 % or all of it."""
        if 1 < value <= 100:
            self.percent = True
        elif 0 < value < 1:
            self.percent = False
        if value == 1 and self.percent is None:
            return "no_previous"
        return value * 100 if self.percent is False else value


def readings(gpu: GpuAnswer, habits: Habits) -> tuple[list[Cell], list[str | None]]:
    """Values and reasons in the order of GPU_METRICS; exactly one of each pair is None."""
    values: list[Cell] = []
    reasons: list[str | None] = []
    for metric in GPU_METRICS:
        value, reason = (None, "unsupported") if metric.dcgm is None else _reading(gpu, metric, metric.dcgm, habits)
        values.append(value)
        reasons.append(reason)
    if _is_contradicted(values):
        for position in PROFILED:
            if values[position] is not None:
                values[position], reasons[position] = None, "blank"
    return values, reasons


def _is_contradicted(values: list[Cell]) -> bool:
    """True where every profiling metric reads nought on a busy GPU: DCGM's profiling has stopped, and its noughts say nothing.

    Seen after weeks of running: https://github.com/NVIDIA/dcgm-exporter/issues/662.
    """
    util = values[_UTIL]
    told = [values[position] for position in PROFILED if values[position] is not None]
    return util is not None and util >= BUSY_PCT and bool(told) and not any(told)


def _reading(gpu: GpuAnswer, metric: Metric, number: int, habits: Habits) -> tuple[Cell, str | None]:
    if number in gpu.own:
        return _converted(metric, *gpu.own[number], habits)
    if number in gpu.parts:
        return _joined(gpu, metric, gpu.parts[number], habits)
    if number in gpu.late:
        return None, "timeout"
    if metric.name == "mem_total_bytes":
        return _memory(gpu, metric, habits)
    return None, "unsupported"


def _converted(metric: Metric, raw: float, known: Field, habits: Habits) -> tuple[Cell, str | None]:
    """A number in the registry's unit; a blank is known before any arithmetic."""
    reason = _blank(metric, raw)
    if reason is not None:
        return None, reason
    factor = dcgm_fields.scale(known.unit, metric)
    if factor is None:
        return None, "unsupported"
    if known.unit == "percent_or_ratio":
        settled = habits.settle(raw)
        if isinstance(settled, str):
            return None, settled
        raw = settled
    value = raw * factor
    if metric.unit == "ratio" and 1 < value <= _ROUNDING:
        return 1.0, None
    return accept(metric, value)


def _blank(metric: Metric, raw: float) -> str | None:
    """Why DCGM gives no value; None where `raw` is one. A counter of its own may pass the 32-bit blanks honestly."""
    if _INT64_BLANK <= raw <= 1 << 64:
        return "blank"  # as a float the kinds of 64-bit blanks cannot be told apart
    for blank in (_FP64_BLANK, _INT32_BLANK):
        if blank <= raw < blank + 16 and (blank == _FP64_BLANK or metric.kind != "counter"):
            return _BLANK_REASONS.get(int(raw - blank), "blank")
    return None


def _joined(gpu: GpuAnswer, metric: Metric, parts: dict[str, tuple[float, Field]], habits: Habits) -> tuple[Cell, str | None]:
    """The whole GPU's reading from those of its instances."""
    read = {instance: _converted(metric, raw, known, habits) for instance, (raw, known) in parts.items()}
    for _, reason in read.values():
        if reason is not None:
            return None, reason
    numbers = {instance: value for instance, (value, _) in read.items() if value is not None}
    if metric.unit == "ratio":
        weights = {instance: _slices(gpu.profiles.get(instance, "")) for instance in numbers}
        if None in weights.values():
            return None, "unsupported"
        whole = 4 if "A30" in gpu.name else 7
        return accept(metric, sum(numbers[one] * (weights[one] or 0) for one in numbers) / whole)
    if metric.unit in ("bytes", "bytes_per_second"):
        return accept(metric, sum(numbers.values()))
    same = set(numbers.values())
    return accept(metric, same.pop()) if len(same) == 1 else (None, "unsupported")


def _slices(profile: str) -> int | None:
    match = _SLICES.match(profile)
    return int(match[1]) if match else None


def _memory(gpu: GpuAnswer, metric: Metric, habits: Habits) -> tuple[Cell, str | None]:
    """All of the memory, which the exporter's default counters tell in three parts; only where none of them is missing."""
    total: float = 0
    for number in (dcgm_fields.FB_FREE, 252, 253):
        told = gpu.own.get(number)
        value = None if told is None else _converted(metric, *told, habits)[0] if told[0] else 0
        if value is None:
            return None, "unsupported"
        total += value
    return accept(metric, total)
