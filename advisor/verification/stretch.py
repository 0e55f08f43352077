"""`Stretch`: the steady part of one run, as what is before or after a change."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import polars as pl

from advisor import phases
from advisor.frames import Window, from_recording
from advisor.samples import ACTIVE, Span, facts_of, judged
from advisor.verification.measure import WEIGHT, tensor_weight
from wire.recording import Recording

GPU_COLUMNS: Final = ("busy", "sm_active", "tensor_active", "fp32_active", "sm_clock_mhz")
SUMMED: Final = ("tokens_per_s", "samples_per_s")
REPORTED_METRICS: Final = ("step_time_s", *SUMMED)
"""What programs report; a process in whose row they are missing reports nothing."""
END_S: Final = 3.0
"""A program that ends lets go of workers and memory for so long without any work; longer quiet is something that it does."""
PRESENT: Final = 0.5
"""Of a stretch, for a process to count as another one that works beside the job."""
TENANT_CORES: Final = 0.1
"""As advisor/bottleneck.py: what holds memory and sleeps uses less of a core."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """One run's steady part.

    `samples`: one row a time: GPU_COLUMNS, means over its GPUs, and what its processes reported together; null: not measured.
    `phases`: how long each of the things took that it did one after the other, as shares; one number where it did one thing.
    `others`: whether programs beside its own worked on its GPUs. `told`: flags, variables and versions of its processes.
    """

    name: str
    samples: pl.DataFrame
    gpu_model: str
    gpus: int
    phases: tuple[float, ...] = (1.0,)
    others: bool = False
    program: str | None = None
    told: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def length_s(self) -> float:
        """Seconds from its first to its last sample."""
        t = self.samples.get_column("t")
        return 0.0 if t.is_empty() else float(t[-1] - t[0])


def of_recording(recording: Recording, patience_s: float = 2.0, program: str | None = None) -> Stretch:
    """The steady part of a recording; RecordingError where a sample cannot be one."""
    window = from_recording(recording)
    told = next(iter(window.labels.values()), {})
    return of_window(window, recording.name, patience_s, from_start=True, program=program, told=told)


def of_window(
    window: Window,
    name: str,
    patience_s: float,
    *,
    from_start: bool = False,
    program: str | None = None,
    told: Mapping[str, str] = MappingProxyType({}),
    own: frozenset[int] | None = None,
) -> Stretch:
    """The steady part of what one job did in `window`, all of whose GPUs are the job's.

    `own`: its processes, where others hold its GPUs too; None: those that hold most memory of each GPU and what is started by the same name.
    """
    part = judged(window, facts_of(window), Span(patience_s, from_start))
    model = next((text for text in window.facts.get_column("name").to_list() if text), "")
    mine = _own(part.holders) if own is None else own
    per_gpu = part.samples.select("gpu", "t", *GPU_COLUMNS)
    active = per_gpu.group_by("gpu").len().get_column("gpu").to_list()
    samples = per_gpu.group_by("t").agg(pl.col(GPU_COLUMNS).mean(), pl.len().alias("cards")).sort("t")
    samples = samples.filter(pl.col("cards") == len(active)).drop("cards")  # a time at which a card was not read has other means
    samples = samples.with_columns(pl.lit(tensor_weight(model)).alias(WEIGHT))
    samples = samples.join(_reported(window, mine), on="t", how="left", maintain_order="left")
    samples = _without_end(samples)
    beside = part.holders.filter(
        ~pl.col("pid").is_in(list(mine)) & ~pl.col("helper") & (pl.col("presence") >= PRESENT) & (pl.col("cores") >= TENANT_CORES)
    )
    turns = phases.turns(part)
    lasted: tuple[float, ...] = (1.0,)
    if not turns.is_empty():
        first = turns.filter(pl.col("gpu") == turns.get_column("gpu")[0]).get_column("phase_s")
        lasted = tuple(float(length) / float(first.sum()) for length in first)
    return Stretch(name, samples, model, window.facts.height, lasted, not beside.is_empty(), program, told)


def _without_end(samples: pl.DataFrame) -> pl.DataFrame:
    """`samples` without the end of the program, and the sample in which it began."""
    t = samples.get_column("t")
    last = t.filter(samples.get_column("busy") >= ACTIVE).max()
    if not isinstance(last, float) or not 0 < float(t[-1]) - last <= END_S:
        return samples
    return samples.filter(pl.col("t") < last)


def _own(holders: pl.DataFrame) -> frozenset[int]:
    """The processes of the job: on each GPU the one with most memory, and all that bear such a one's name."""
    if holders.is_empty():
        return frozenset()
    most = holders.sort(pl.col("gpu_mem_bytes").fill_null(0), descending=True).group_by("gpu", maintain_order=True).first()
    names = [name for name in most.get_column("name").to_list() if name]
    return frozenset(most.get_column("pid").to_list()) | frozenset(
        holders.filter(pl.col("name").is_in(names)).get_column("pid").to_list()
    )


def _reported(window: Window, own: frozenset[int]) -> pl.DataFrame:
    """`t` and what the job's processes reported at it: throughput in all, the median time of a step."""
    have = [name for name in REPORTED_METRICS if name in window.process.columns]
    empty = pl.DataFrame(schema={"t": pl.Float64, **dict.fromkeys(REPORTED_METRICS, pl.Float64)})
    if not have or not own:
        return empty
    rows = (
        window.process.filter(pl.col("pid").is_in(list(own)))
        .select(pl.col("t").cast(pl.Float64), "pid", *[pl.col(name).cast(pl.Float64) for name in have])
        .unique(["t", "pid"], keep="first")
    )
    telling = {name: rows.filter(pl.col(name).is_not_null()).get_column("pid").n_unique() for name in have}
    have = [name for name in have if telling[name]]
    if not have:
        return empty
    whole = [
        # where one of several ranks was not heard of, the sum would be of fewer of them
        pl.when(pl.col(name).count() == telling[name]).then(pl.col(name).sum()).alias(name)
        if name in SUMMED
        else pl.col(name).median()
        for name in have
    ]
    lacks = [pl.lit(None, pl.Float64).alias(name) for name in REPORTED_METRICS if name not in have]
    found = rows.group_by("t").agg(*whole).with_columns(*lacks).select("t", *REPORTED_METRICS)
    return found.with_columns(pl.when(pl.col(name) > 0).then(name).alias(name) for name in have)
