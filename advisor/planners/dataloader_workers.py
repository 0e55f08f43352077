"""DataLoader workers: how many a rank needs to keep its GPU fed, how many the node has cores for, and what they take."""

import math
from dataclasses import dataclass
from typing import Final

from advisor.planners import inputs
from advisor.planners.idle import without
from advisor.planners.inputs import InputError
from advisor.planners.planner import Caution, Parameter, Planner, shown
from advisor.planners.plot import Plot
from advisor.text import _

MARGIN: Final = 1.25
"""Workers beyond the mean need: the time of a sample varies."""


@dataclass(frozen=True, slots=True)
class DataloaderWorkers:
    """`workers` for each rank; where `cpu_bound` is true the node lacks the cores that the job needs."""

    workers_needed: int = shown(_("Workers needed for a rank"), "count")
    workers_cap: int = shown(_("Workers that a rank has cores for"), "count")
    workers: int = shown(_("num_workers"), "count")
    cpu_bound: bool = shown(_("Too few cores: the GPU will wait for the CPU"), "flag")
    shm_bytes: float | None = shown(_("Shared memory of the node"), "bytes")
    read_bytes_per_s: float | None = shown(_("Reads of the node"), "bytes_per_second")


def workers_needed(sample_time_s: float, batch: float, step_s: float) -> int:
    """Workers that prepare a batch while the GPU takes a step, with a quarter to spare."""
    inputs.positive(sample_time_s=sample_time_s, batch=batch, step_s=step_s)
    need = MARGIN * sample_time_s * batch / step_s
    if need > 1e9:
        text = _("sample_time_s, batch and step_s together need {workers} workers; check their units: times are in seconds.")
        raise InputError(text, "sample_time_s", workers=f"{need:.3g}")
    return math.ceil(need - 1e-9)


def workers_cap(cores: int, ranks: int) -> int:
    """Workers that each of `ranks` ranks has cores for beside its own process; 0 where there is a core for each rank alone."""
    inputs.whole(cores=cores, ranks=ranks)
    return max(0, cores // ranks - 1)


def shm_bytes(workers: int, prefetch_factor: int, batch: float, bytes_per_sample: float, ranks: int = 1) -> float:
    """Bytes of shared memory that prefetched batches take on the node."""
    inputs.not_negative(workers=workers)
    inputs.whole(prefetch_factor=prefetch_factor, ranks=ranks)
    inputs.positive(batch=batch, bytes_per_sample=bytes_per_sample)
    return float(workers) * prefetch_factor * batch * bytes_per_sample * ranks


def read_bytes_per_s(batch: float, step_s: float, bytes_on_disk: float, ranks: int = 1) -> float:
    """Bytes/s that the node must read."""
    inputs.positive(batch=batch, step_s=step_s, bytes_on_disk=bytes_on_disk)
    inputs.whole(ranks=ranks)
    return batch / step_s * bytes_on_disk * ranks


def dataloader_workers(
    sample_time_s: float,
    batch: float,
    step_s: float,
    cores: int,
    ranks: int = 1,
    prefetch_factor: int = 2,
    sample_size_bytes: float | None = None,
    disk_size_bytes: float | None = None,
) -> DataloaderWorkers:
    """Workers of each rank of a node, and the shared memory and reads of the node."""
    need, cap = workers_needed(sample_time_s, batch, step_s), workers_cap(cores, ranks)
    workers = min(need, cap)
    return DataloaderWorkers(
        workers_needed=need,
        workers_cap=cap,
        workers=workers,
        cpu_bound=need > cap,
        shm_bytes=None if sample_size_bytes is None else shm_bytes(workers, prefetch_factor, batch, sample_size_bytes, ranks),
        read_bytes_per_s=None if disk_size_bytes is None else read_bytes_per_s(batch, step_s, disk_size_bytes, ranks),
    )


PLANNER: Final = Planner(
    name="dataloader-workers",
    title=_("DataLoader workers and shared memory"),
    about=_("num_workers for each rank, and the shared memory and disk reads that come with it"),
    formula=(
        _("needed = ceil(1.25*sample time*batch/step time); cap = floor(cores/ranks) - 1; workers = min(needed, cap)"),
        _("shared memory = workers*prefetch factor*batch*bytes of a sample*ranks; reads = batch/step time*bytes on disk*ranks"),
    ),
    assumptions=(
        _("Cores are those that the job may use (cgroup and affinity), physical ones unless hyper-threads were measured to help."),
        _("The batch is what one step takes: with a step of the optimizer, micro-batch times accumulation."),
        _("More workers than cores slow each other down; PyTorch warns above the affinity count."),
    ),
    sources=("https://docs.pytorch.org/docs/stable/data.html",),
    parameters=(
        Parameter("sample_time_s", "seconds", _("CPU time to prepare one sample"), low=1e-9, high=1e6, slider=(1e-4, 1)),
        Parameter("batch", "count", _("Samples of a rank in a step"), low=1e-6, high=1e9, slider=(1, 2048)),
        Parameter("step_s", "seconds", _("Time of a step when data is there"), low=1e-9, high=1e6, slider=(0.01, 10)),
        Parameter("cores", "count", _("CPU cores that the job may use on the node"), low=1, high=1e6, slider=(1, 256), whole=True),
        Parameter("ranks", "count", _("Ranks on the node"), default=1, low=1, high=1e4, slider=(1, 16), whole=True),
        Parameter("prefetch_factor", "count", _("Batches that each worker prepares ahead"), default=2, low=1, high=1e4, slider=(1, 16), whole=True),
        Parameter("sample_size_bytes", "bytes", _("Size of a prepared sample"), optional=True, low=1e-3, slider=(1e3, 1e8)),
        Parameter("disk_size_bytes", "bytes", _("Size of a sample on disk"), optional=True, low=1e-3, slider=(1e3, 1e8)),
    ),
    call=dataloader_workers,
    result=DataloaderWorkers,
    example={
        "sample_time_s": "12ms", "batch": "256", "step_s": "0.35s", "cores": "96", "ranks": "8", "sample_size_bytes": "602112",
        "disk_size_bytes": "110kB",
    },
    answers=("workers", "workers_needed", "workers_cap"),
    cautions=(
        Caution("cpu_bound", bool, _("The node lacks cores for this: make samples cheaper to prepare, prepare them on the GPU, or take more cores for each GPU.")),
    ),
    idle=(without("prefetch_factor", "sample_size_bytes"),),
    plots=(Plot(_("Workers over the time of a sample"), "sample_time_s", ("workers_needed", "workers_cap"), from_zero=True, span=3),),
)  # fmt: skip
