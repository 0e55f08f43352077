"""Batch and pipeline arithmetic: the global batch, the pipeline's bubble, and the largest micro-batch by two measurements."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.planners import inputs
from advisor.planners.idle import Idle, without
from advisor.planners.inputs import InputError
from advisor.planners.planner import Caution, Parameter, Planner, shown
from advisor.planners.plot import Line, Plot
from advisor.text import _

USABLE: Final = 0.90
"""Of the memory: a little less than a plan by formula takes, as two measurements do not show the worst batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """`largest_micro_batch` is None without two measurements."""

    global_batch: int = shown(_("Global batch"), "count")
    bubble_ratio: float = shown(_("Pipeline bubble"), "ratio")
    bytes_per_sample: float | None = shown(_("Memory of one more sample"), "bytes")
    largest_micro_batch: int | None = shown(_("Largest micro-batch that fits"), "count")


def global_batch(micro_batch: int, accumulation: int, data_parallel: int) -> int:
    """Samples of one step of the optimizer."""
    inputs.whole(micro_batch=micro_batch, accumulation=accumulation, data_parallel=data_parallel)
    return int(micro_batch) * int(accumulation) * int(data_parallel)


def pipeline_bubble(stages: int, micro_batches: int, virtual_stages: int = 1) -> float:
    """Share of the time that a pipeline's stages wait; `virtual_stages` chunks on each stage shorten it."""
    inputs.whole(stages=stages, micro_batches=micro_batches, virtual_stages=virtual_stages)
    return (stages - 1) / (virtual_stages * micro_batches + stages - 1)


def bytes_per_sample(first_batch: int, first_peak_bytes: float, second_batch: int, second_peak_bytes: float) -> float:
    """Bytes that each further sample of a micro-batch takes, from two measured peaks."""
    inputs.whole(first_batch=first_batch, second_batch=second_batch)
    inputs.positive(first_peak_bytes=first_peak_bytes, second_peak_bytes=second_peak_bytes)
    if first_batch == second_batch:
        raise InputError(
            _("first_batch and second_batch must differ; both are {value}."), "second_batch", value=f"{first_batch:g}"
        )
    slope = (second_peak_bytes - first_peak_bytes) / (second_batch - first_batch)
    if slope <= 0:
        raise InputError(
            _("The larger micro-batch must take more memory; measure both peaks in processes of their own."), "second_peak_bytes"
        )
    return slope


def largest_micro_batch(
    first_batch: int, first_peak_bytes: float, second_batch: int, second_peak_bytes: float, memory_bytes: float
) -> int:
    """The largest micro-batch that leaves a tenth of the memory free; 0 where not even one sample fits."""
    inputs.positive(memory_bytes=memory_bytes)
    slope = bytes_per_sample(first_batch, first_peak_bytes, second_batch, second_peak_bytes)
    return max(0, math.floor((USABLE * memory_bytes - first_peak_bytes) / slope) + int(first_batch))


def batch(
    micro_batch: int,
    accumulation: int = 1,
    data_parallel: int = 1,
    pipeline_parallel: int = 1,
    virtual_stages: int = 1,
    first_batch: int | None = None,
    first_peak_bytes: float | None = None,
    second_batch: int | None = None,
    second_peak_bytes: float | None = None,
    memory_bytes: float | None = None,
) -> Batch:
    """Global batch and bubble, with accumulation as the pipeline's micro-batches; the largest micro-batch from two measured peaks."""
    slope = largest = None
    if first_batch is not None and first_peak_bytes is not None and second_batch is not None and second_peak_bytes is not None:
        slope = bytes_per_sample(first_batch, first_peak_bytes, second_batch, second_peak_bytes)
        if memory_bytes is not None:
            largest = largest_micro_batch(first_batch, first_peak_bytes, second_batch, second_peak_bytes, memory_bytes)
    elif any(value is not None for value in (first_batch, first_peak_bytes, second_batch, second_peak_bytes)):
        raise InputError(
            _(
                "The largest micro-batch needs two measurements: first_batch, first_peak_bytes, second_batch and second_peak_bytes."
            )
        )
    return Batch(
        global_batch=global_batch(micro_batch, accumulation, data_parallel),
        bubble_ratio=pipeline_bubble(pipeline_parallel, accumulation, virtual_stages),
        bytes_per_sample=slope,
        largest_micro_batch=largest,
    )


def _by_measurements(taken: Mapping[str, Any], result: Batch, micro_batch: float) -> Mapping[str, float | None]:
    """Peak memory on the line through both measurements."""
    if result.bytes_per_sample is None:
        return {}
    peak = taken["first_peak_bytes"] + (micro_batch - taken["first_batch"]) * result.bytes_per_sample
    return {"memory_bytes": max(0.0, peak)}


PLANNER: Final = Planner(
    name="batch",
    title=_("Batch and pipeline arithmetic"),
    about=_("Global batch, pipeline bubble, and the largest micro-batch from two measured peaks"),
    formula=(
        _("global batch = micro-batch*accumulation*data parallel"),
        _("bubble = (p-1)/(v*m + p-1) with p stages, m micro-batches and v chunks a stage"),
        _("largest micro-batch = floor((0.9*memory - M1)/k) + b1 with k = (M2 - M1)/(b2 - b1)"),
    ),
    assumptions=(
        _("Accumulation keeps memory at that of the micro-batch, and with no_sync communicates once for a step of the optimizer."),
        _("In a pipeline the accumulated micro-batches are those that fill it."),
        _("Peaks are the most that PyTorch reserved, in two separate runs with the longest sequences."),
    ),
    sources=("https://arxiv.org/abs/2104.04473",),
    parameters=(
        Parameter("micro_batch", "count", _("Samples of a micro-batch"), low=1, high=1e9, slider=(1, 256), whole=True),
        Parameter("accumulation", "count", _("Micro-batches of a step"), default=1, low=1, high=1e9, slider=(1, 256), whole=True),
        Parameter("data_parallel", "count", _("Data-parallel ranks"), default=1, low=1, high=1e7, slider=(1, 1024), whole=True),
        Parameter("pipeline_parallel", "count", _("Pipeline stages"), default=1, low=1, high=1e4, slider=(1, 64), whole=True),
        Parameter("virtual_stages", "count", _("Chunks of the model on each stage"), default=1, low=1, high=1e4, slider=(1, 16), whole=True),
        Parameter("first_batch", "count", _("Micro-batch of the first measurement"), optional=True, low=1, high=1e9, slider=(1, 256), whole=True),
        Parameter("first_peak_bytes", "bytes", _("Peak memory of the first measurement"), optional=True, low=1, slider=(1e9, 3e11)),
        Parameter("second_batch", "count", _("Micro-batch of the second measurement"), optional=True, low=1, high=1e9, slider=(1, 256), whole=True),
        Parameter("second_peak_bytes", "bytes", _("Peak memory of the second measurement"), optional=True, low=1, slider=(1e9, 3e11)),
        Parameter("memory_bytes", "bytes", _("Memory of the GPU"), optional=True, low=1, slider=(8e9, 3e11), of_card="memory_bytes"),
    ),
    call=batch,
    result=Batch,
    example={
        "micro_batch": "4", "accumulation": "8", "data_parallel": "16", "pipeline_parallel": "8", "first_batch": "4", "first_peak_bytes": "22GiB",
        "second_batch": "8", "second_peak_bytes": "34GiB", "memory_bytes": "80GiB",
    },
    answers=("global_batch", "bubble_ratio", "largest_micro_batch"),
    cautions=(
        Caution("largest_micro_batch", lambda largest: largest == 0, _("Not one sample fits: shard, recompute or shorten the sequence.")),
    ),
    idle=(
        Idle(("virtual_stages",), lambda taken: taken["pipeline_parallel"] == 1, "pipeline_parallel"),
        without("memory_bytes", "first_batch", "first_peak_bytes", "second_batch", "second_peak_bytes"),
    ),
    plots=(
        Plot(_("Pipeline bubble over the micro-batches of a step"), "accumulation", ("bubble_ratio",)),
        Plot(
            _("Memory over the micro-batch, by the two measurements"), "micro_batch",
            (Line("memory_bytes", _("Peak memory"), "bytes"),), limit="memory_bytes", curve=_by_measurements,
        ),
        Plot(_("Global batch over the micro-batch"), "micro_batch", ("global_batch",)),
    ),
)  # fmt: skip
