"""`Measure`: what the speed before and after a change is told by.

What a program reports of itself is its speed: tokens, samples, or the time of a step. Where it reports nothing, a rule's own measure
stands in: what its bottleneck held back. That is an estimate of the speed, and is said to be one. Rules of what has no such measure
(health, capacity, a neighbour) claim nothing of the speed of a program that reports none.

The ratio of each pair of recordings by these measures, beside that of the throughput which the programs themselves printed:
fp32_train and bf16_train 8.0 and 8.0, launch_bound and launch_graphed 4.3 and 4.2, loader_starved and loader_ok 7.4 and 8.8.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import polars as pl

from advisor.finding import Bottleneck
from advisor.peaks import card
from advisor.rule import Rule
from advisor.text import _

Centre = Literal["median", "mean"]

WEIGHT: Final = "tensor_weight"
"""Column of how much more a tensor core multiplies in a cycle than the FP32 pipe, of the card."""
EMULATED: Final = 6.0
"""FP32 products on tensor cores are three of TF32, each at half the rate of bf16: what they are worth, of the same activity."""
FALLBACK_WEIGHT: Final = 16.0
"""Ampere and Hopper of data centres: 1,024 and 2,048 products a cycle and SM against 64 and 128."""


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """One way to tell the speed.

    `value` is an expression over the samples of a stretch of work (stretch.py); `centre`: the mean where the value is a share of time,
    which comes and goes (the median of a saw-tooth is its top or its foot), else the median.
    """

    id: str
    label: str
    unit: str
    value: pl.Expr
    needs: tuple[str, ...]
    more_is_better: bool = True
    is_reported: bool = False
    centre: Centre = "median"


def _of_service(name: str, label: str, least_s: float = 0.0, centre: Centre = "median") -> Measure:
    value = pl.col(name).clip(least_s) if least_s else pl.col(name)
    return Measure(name, label, "seconds", value, (name,), more_is_better=False, is_reported=True, centre=centre)


_fp32, _tensor = pl.col("fp32_active").fill_null(0.0), pl.col("tensor_active")
_worth = pl.when(_fp32 > 6.0 * _tensor).then(pl.col(WEIGHT) / EMULATED).otherwise(pl.col(WEIGHT))

REPORTED: Final = (
    Measure("tokens_per_s", _("tokens per second"), "per_second", pl.col("tokens_per_s"), ("tokens_per_s",), is_reported=True),
    Measure(
        "samples_per_s", _("samples per second"), "per_second", pl.col("samples_per_s"), ("samples_per_s",), is_reported=True
    ),
    Measure(
        "step_time_s",
        _("time of a step"),
        "seconds",
        pl.col("step_time_s"),
        ("step_time_s",),
        more_is_better=False,
        is_reported=True,
    ),
)
"""The best first: a step of twice the batch takes longer and is no slower, so throughput comes before the time of a step."""

OWN: Final[Mapping[str, Measure]] = MappingProxyType(
    {
        one.id: one
        for one in (
            Measure("busy", _("time in which the GPU works"), "ratio", pl.col("busy"), ("busy",), centre="mean"),
            Measure(
                "arithmetic",
                _("arithmetic of the math pipes"),
                "number",
                # FP32 products that the pipe could do in a thousandth of a second by all of its SMs' cycles, whatever pipe did them
                (_fp32 + _worth * _tensor) * pl.col("sm_clock_mhz"),
                ("tensor_active", "sm_clock_mhz"),
            ),
            Measure("sm_active", _("SM activity"), "ratio", pl.col("sm_active"), ("sm_active",), centre="mean"),
            Measure("sm_clock_mhz", _("SM clock"), "megahertz", pl.col("sm_clock_mhz"), ("sm_clock_mhz",)),
            _of_service("ttft_p95_s", _("time to the first token, 95th percentile")),
            _of_service("tpot_p95_s", _("time per output token, 95th percentile")),
            # a queue that is gone is as good as one of a millisecond: times nothing there is no ratio
            _of_service("queue_mean_s", _("time in the queue"), least_s=0.001),
            _of_service("e2e_mean_s", _("time of a request"), centre="mean"),
            Measure(
                "served_per_s", _("requests served a second"), "per_second", pl.col("served_per_s"), ("served_per_s",),
                is_reported=True, centre="mean",
            ),
        )
    }
)  # fmt: skip
"""Measures of their own that rules may name."""

OF_SERVICES: Final = frozenset({"ttft_p95_s", "tpot_p95_s", "queue_mean_s", "e2e_mean_s", "served_per_s"})
"""Those of serving engines (service.py), which tell them themselves."""

BY_BOTTLENECK: Final[Mapping[Bottleneck, str]] = MappingProxyType(
    {
        "idle": "busy",
        "data": "busy",
        "copy": "busy",
        "launch": "busy",
        "checkpoint": "busy",
        "communication": "arithmetic",
        "compute": "arithmetic",
        "underfilled": "sm_active",
        "clocks": "sm_clock_mhz",
    }
)
"""What each bottleneck holds back. Of memory bandwidth and of a neighbour the counters look the same at any speed."""

_NO_OWN: Final = "none"
_COMES_AND_GOES: Final = frozenset({"checkpoint", "idle"})


def own(rule: Rule) -> Measure | None:
    """The rule's own measure: the one that it names, else its bottleneck's; None where there is none."""
    name = rule.measure or (BY_BOTTLENECK.get(rule.bottleneck) if rule.bottleneck else None)
    return None if name is None or name == _NO_OWN else OWN[name]


def centre(measure: Measure, rule: Rule) -> Centre:
    """Mean or median: what comes and goes is not seen in the median of what a program reports either."""
    return "mean" if rule.bottleneck in _COMES_AND_GOES else measure.centre


def tensor_weight(model: str) -> float:
    """How much more a tensor core of the card multiplies in a cycle than its FP32 pipe; FALLBACK_WEIGHT where that is not known.

    Peaks are published at different clocks; by the cycle both are powers of two.
    """
    peaks = found.dense_flop_per_s if (found := card(model)) else {}
    products, plain = peaks.get("bf16") or peaks.get("fp16"), peaks.get("fp32")
    return 2.0 ** round(math.log2(products / plain)) if products and plain else FALLBACK_WEIGHT
