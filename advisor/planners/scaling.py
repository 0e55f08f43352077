"""Scaling efficiency: what is left of N GPUs, and how much of the work behaves as if it were serial."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from advisor.planners import inputs
from advisor.planners.inputs import InputError
from advisor.planners.planner import Caution, Parameter, Planner, shown
from advisor.planners.plot import Line, Plot
from advisor.text import _


@dataclass(frozen=True, slots=True)
class Scaling:
    """The speed of N GPUs against one; `serial_ratio` is None where there is one GPU."""

    speedup: float = shown(_("Times the speed of one GPU"), "count")
    efficiency_ratio: float = shown(_("Scaling efficiency"), "ratio")
    serial_ratio: float | None = shown(_("Serial fraction (Karp-Flatt)"), "ratio")
    lost_gpus: float = shown(_("GPUs' worth of work lost"), "count")


def weak_efficiency(rate_of_all: float, rate_of_one: float, gpus: int) -> float:
    """Share of N times one GPU's samples/s that N GPUs reach with the same batch on each."""
    inputs.positive(rate_of_all=rate_of_all, rate_of_one=rate_of_one)
    inputs.whole(gpus=gpus)
    return rate_of_all / (gpus * rate_of_one)


def strong_speedup(time_of_one_s: float, time_of_all_s: float) -> float:
    """How many times faster the same global batch is."""
    inputs.positive(time_of_one_s=time_of_one_s, time_of_all_s=time_of_all_s)
    return time_of_one_s / time_of_all_s


def karp_flatt(speedup: float, gpus: int) -> float:
    """The serial fraction that the speed-up implies. One that rises with N means communication or imbalance, a constant one a serial part."""
    inputs.positive(speedup=speedup)
    inputs.whole(gpus=gpus)
    if gpus < 2:
        raise InputError(_("gpus must be at least 2 for a serial fraction: one GPU scales to nothing."), "gpus")
    return (1 / speedup - 1 / gpus) / (1 - 1 / gpus)


def efficiency_when_slower(efficiency: float, slower_ratio: float) -> float:
    """The efficiency where the same step takes a share of the speed away, as PCIe does against NVLink."""
    inputs.share(efficiency=efficiency)
    inputs.not_negative(slower_ratio=slower_ratio)
    if slower_ratio >= 1:
        raise InputError(_("slower_ratio must be below 1, not {value}."), "slower_ratio", value=f"{slower_ratio:g}")
    return efficiency * (1 - slower_ratio)


def scaling(
    gpus: int,
    rate_of_one: float | None = None,
    rate_of_all: float | None = None,
    time_of_one_s: float | None = None,
    time_of_all_s: float | None = None,
) -> Scaling:
    """Efficiency from two rates (weak scaling, the same batch on each GPU) or two times (strong scaling, the same global batch)."""
    inputs.whole(gpus=gpus)
    if rate_of_one is not None and rate_of_all is not None and time_of_one_s is None and time_of_all_s is None:
        efficiency = weak_efficiency(rate_of_all, rate_of_one, gpus)
        speedup = efficiency * gpus
    elif time_of_one_s is not None and time_of_all_s is not None and rate_of_one is None and rate_of_all is None:
        speedup = strong_speedup(time_of_one_s, time_of_all_s)
        efficiency = speedup / gpus
    else:
        raise InputError(_("Scaling needs both rates (rate_of_one, rate_of_all) or both times (time_of_one_s, time_of_all_s)."))
    return Scaling(speedup, efficiency, karp_flatt(speedup, gpus) if gpus > 1 else None, gpus * (1 - efficiency))


def _if_it_stays(_taken: Mapping[str, Any], result: Scaling, gpus: float) -> Mapping[str, float | None]:
    """The efficiency of `gpus` GPUs with the serial fraction that was measured (Amdahl)."""
    if result.serial_ratio is None or (times := 1 + result.serial_ratio * (gpus - 1)) <= 0:
        return {}
    return {"efficiency_ratio": 1 / times}


PLANNER: Final = Planner(
    name="scaling",
    title=_("Scaling efficiency"),
    about=_("How much of N GPUs is left, from two measured speeds"),
    formula=(
        _("weak: E = R(N)/(N*R(1)); strong: S = T(1)/T(N), E = S/N"),
        _("serial fraction e = (1/S - 1/N)/(1 - 1/N)"),
    ),
    assumptions=(
        _("Weak scaling keeps each GPU's batch, strong scaling the global batch; a rate is samples or tokens a second."),
        _("A serial fraction that rises with N means communication or imbalance; a constant one means a serial part."),
    ),
    sources=("https://doi.org/10.1145/78607.78614",),
    parameters=(
        Parameter("gpus", "count", _("GPUs of the job"), low=1, high=1e7, slider=(2, 1024), whole=True),
        Parameter("rate_of_one", "per_second", _("Samples a second of one GPU"), optional=True, low=1e-12, slider=(1, 1e4)),
        Parameter("rate_of_all", "per_second", _("Samples a second of all GPUs"), optional=True, low=1e-12, slider=(1, 1e6)),
        Parameter("time_of_one_s", "seconds", _("Time of one GPU for a global batch"), optional=True, low=1e-12, slider=(0.01, 1e4)),
        Parameter("time_of_all_s", "seconds", _("Time of all GPUs for the same global batch"), optional=True, low=1e-12, slider=(0.01, 1e3)),
    ),
    call=scaling,
    result=Scaling,
    example={"gpus": "8", "rate_of_one": "1000", "rate_of_all": "7200"},
    answers=("efficiency_ratio", "speedup", "lost_gpus"),
    cautions=(
        Caution("efficiency_ratio", lambda ratio: ratio > 1, _("That is more than linear: the measurement of one GPU was held up by something that more GPUs do not have.")),
    ),
    plots=(Plot(_("Efficiency over GPUs, if the serial fraction stays"), "gpus", (Line("efficiency_ratio", _("Scaling efficiency"), "ratio"),), span=16, curve=_if_it_stays),),
)  # fmt: skip
