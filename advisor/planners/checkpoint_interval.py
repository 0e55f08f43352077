"""Checkpoint interval: how often to save, so that saving and what failures lose cost least together."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.planners import inputs
from advisor.planners.idle import behind
from advisor.planners.planner import NOT_COUNTED, Caution, Parameter, Planner, shown
from advisor.planners.plot import Line, Plot
from advisor.text import Text, _

GPU_HOURS_PER_FAILURE: Final = 54 * 24 * 16_384 / 419
"""About 50,677: 419 unexpected interruptions in 54 days on 16,384 H100 (https://arxiv.org/abs/2407.21783)."""


@dataclass(frozen=True, slots=True)
class CheckpointInterval:
    """The interval, and what saving and failures cost with it."""

    mtbf_hours: float = shown(_("Mean time between failures of the job"), "hours")
    young_s: float = shown(_("Interval by Young"), "seconds")
    daly_s: float = shown(_("Interval by Daly"), "seconds")
    overhead_ratio: float = shown(_("Time lost to saving and redone work"), "ratio")
    lost_gpu_hours_per_failure: float = shown(_("Lost at each failure"), "gpu_hours")
    not_counted: tuple[Text, ...] = shown(NOT_COUNTED, "sentences")


def mtbf_s(gpus: int, gpu_hours_per_failure: float = GPU_HOURS_PER_FAILURE) -> float:
    """Mean seconds between failures of a job that needs all its GPUs."""
    inputs.whole(gpus=gpus)
    inputs.positive(gpu_hours_per_failure=gpu_hours_per_failure)
    return gpu_hours_per_failure / gpus * 3600


def young_s(stall_s: float, mtbf: float) -> float:
    """Seconds between saves, to first order."""
    inputs.positive(stall_s=stall_s, mtbf=mtbf)
    return math.sqrt(2 * stall_s * mtbf)


def daly_s(stall_s: float, mtbf: float) -> float:
    """Seconds of work between saves, to higher order; as long as the mean time between failures where a save takes twice that or more."""
    first = young_s(stall_s, mtbf)
    if stall_s >= 2 * mtbf:
        return mtbf
    x = stall_s / (2 * mtbf)
    return first * (1 + math.sqrt(x) / 3 + x / 9) - stall_s


def overhead(stall_s: float, mtbf: float, interval_s: float) -> float:
    """Share of the time that saving and redone work take, to first order."""
    inputs.positive(stall_s=stall_s, mtbf=mtbf, interval_s=interval_s)
    return stall_s / interval_s + interval_s / (2 * mtbf)


def checkpoint_interval(
    gpus: int,
    stall_s: float,
    gpu_hours_per_failure: float = GPU_HOURS_PER_FAILURE,
    mtbf_hours: float | None = None,
    restart_s: float | None = None,
    interval_s: float | None = None,
) -> CheckpointInterval:
    """The intervals, and what Young's, or `interval_s` where given, costs. `mtbf_hours` is the whole job's and wins over the rate."""
    if restart_s is not None:
        inputs.not_negative(restart_s=restart_s)
    if mtbf_hours is not None:
        inputs.positive(mtbf_hours=mtbf_hours)
        inputs.whole(gpus=gpus)
    mean = mtbf_s(gpus, gpu_hours_per_failure) if mtbf_hours is None else mtbf_hours * 3600
    young = young_s(stall_s, mean)
    kept = young if interval_s is None else interval_s
    return CheckpointInterval(
        mtbf_hours=mean / 3600,
        young_s=young,
        daly_s=daly_s(stall_s, mean),
        overhead_ratio=overhead(stall_s, mean, kept),
        lost_gpu_hours_per_failure=gpus * (kept / 2 + (restart_s or 0.0)) / 3600,
        not_counted=() if restart_s is not None else (Text(_("The time to start again after a failure: give restart_s.")),),
    )


def _lost(taken: Mapping[str, Any], result: CheckpointInterval, interval_s: float) -> Mapping[str, float | None]:
    """The two parts of the overhead; nothing where saving alone would take all the time."""
    saving = taken["stall_s"] / interval_s
    return {} if saving > 1 else {"saving_ratio": saving, "redone_ratio": interval_s / (2 * result.mtbf_hours * 3600)}


PLANNER: Final = Planner(
    name="checkpoint-interval",
    title=_("Checkpoint interval"),
    about=_("How often to save, from how long a save stalls a job and how often it fails"),
    formula=(
        _("Young: sqrt(2*stall*M); Daly: sqrt(2*stall*M)*(1 + sqrt(x)/3 + x/9) - stall with x = stall/(2*M), for stall < 2*M"),
        _("M = GPU-hours per failure/GPUs; overhead = stall/interval + interval/(2*M)"),
        _("lost per failure = GPUs*(interval/2 + restart)"),
    ),
    assumptions=(
        _("The stall is the time that GPUs wait for a save, not the time of its upload; asynchronous saving lowers the stall alone."),
        _("Any GPU's failure ends the whole job. The default rate is one public training run's; give your fleet's own."),
        _("The overhead is to first order and misleads where it is above a third."),
    ),
    sources=("https://doi.org/10.1145/361147.361115", "https://doi.org/10.1016/j.future.2004.11.016", "https://arxiv.org/abs/2407.21783"),
    parameters=(
        Parameter("gpus", "count", _("GPUs of the job"), low=1, high=1e7, slider=(1, 32768), whole=True),
        Parameter("stall_s", "seconds", _("Time that GPUs wait for a save"), low=1e-6, high=1e9, slider=(0.1, 1200)),
        Parameter("gpu_hours_per_failure", "gpu_hours", _("GPU-hours between failures"), default=GPU_HOURS_PER_FAILURE, low=1e-3, high=1e12, slider=(1000, 500000)),
        Parameter("mtbf_hours", "hours", _("Mean time between failures of the whole job, where known"), optional=True, low=1e-6, high=1e9, slider=(0.5, 1000)),
        Parameter("restart_s", "seconds", _("Time to start again"), optional=True, high=1e9, slider=(0, 3600)),
        Parameter("interval_s", "seconds", _("The interval that is in use, to see what it costs"), optional=True, low=1e-6, high=1e9, slider=(60, 86400)),
    ),
    call=checkpoint_interval,
    result=CheckpointInterval,
    example={"gpus": "1024", "stall_s": "60s", "restart_s": "10min"},
    answers=("young_s", "overhead_ratio", "mtbf_hours"),
    cautions=(
        Caution("overhead_ratio", lambda ratio: ratio > 1 / 3, _("The overhead is above a third, where this formula of first order misleads: make saves cheaper first.")),
        Caution("not_counted", bool, _("A failure costs more than {lost_gpu_hours_per_failure}: the time to start again is not counted.")),
    ),
    idle=(behind("gpu_hours_per_failure", "mtbf_hours"),),
    plots=(
        Plot(
            _("Time lost over the interval"), "interval_s",
            (Line("saving_ratio", _("Saving"), "ratio"), Line("redone_ratio", _("Redone work"), "ratio")),
            stacked=True, best="young_s", label=_("Interval between saves"), curve=_lost,
        ),
    ),
)  # fmt: skip
