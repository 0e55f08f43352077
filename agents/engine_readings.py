"""An engine's readings from two of its answers: gauges and counters of the last, means and quantiles between the two. Pure."""

import math
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from agents.engine_metrics import Average, HistogramMean, Kind, Pick, Quotient, Share, Total, Way
from agents.samples import Sample
from wire.messages import Cell
from wire.metrics import accept, sent

ENGINE_METRICS: Final = tuple(sent("engine"))
_RANKS: Final = ("tp_rank", "pp_rank", "moe_ep_rank")
_MODEL: Final = re.compile(r"[\w.+:@-]{1,96}")

_Key = tuple[tuple[str, str], ...]


class Answer(NamedTuple):
    """One answer: its samples by name, each with its labels as a sorted tuple; `t` is the monotonic second it came."""

    t: float
    samples: dict[str, dict[_Key, float]]


class _Grown(NamedTuple):
    """What a histogram counted in an interval: {upper bound: observations at or below}, their sum and number."""

    buckets: dict[float, float]
    total: float
    number: float


def answer(samples: Iterable[Sample], t: float) -> Answer:
    """The samples that count, each once: a replica's ranks repeat each other, and classes of priority repeat their whole."""
    by_name: dict[str, dict[_Key, float]] = {}
    ranks: dict[tuple[str, _Key], tuple[int, ...]] = {}
    whole = {sample.name for sample in samples if sample.labels.get("priority") == ""}
    for sample in samples:
        labels = sample.labels
        if sample.name in whole and labels.get("priority"):
            continue
        rank = tuple(int(labels[name]) if labels.get(name, "").isdecimal() else 0 for name in _RANKS)
        key = tuple(sorted((name, value) for name, value in labels.items() if name not in _RANKS))
        before = ranks.get((sample.name, key))
        if before is None or rank < before:
            ranks[sample.name, key] = rank
            by_name.setdefault(sample.name, {})[key] = sample.value
    return Answer(t, by_name)


def readings(kind: Kind, before: Answer | None, now: Answer) -> tuple[list[Cell], list[str | None]]:
    """Values and reasons in the order of ENGINE_METRICS; exactly one of each pair is None."""
    values: list[Cell] = []
    reasons: list[str | None] = []
    for metric in ENGINE_METRICS:
        way = kind.ways.get(metric.name)
        read = "unsupported" if way is None else _read(way, before, now)
        value, reason = (None, read) if isinstance(read, str) else accept(metric, read)
        values.append(value)
        reasons.append(reason)
    return values, reasons


def model(kind: Kind, now: Answer) -> str:
    """The model's name, its path and whatever stands behind a question mark left out; several with commas; "" where none is told."""
    named: set[str] = set()
    for name in kind.starts:
        for suffix in ("", "_count"):
            for key in now.samples.get(name + suffix, {}):
                named.update(value for label, value in key if label == kind.model_label)
    short = sorted({found for full in named if (found := _last(full))})
    return ", ".join(short[:3]) + (f" +{len(short) - 3}" if len(short) > 3 else "")


def is_of(kind: Kind, now: Answer) -> bool:
    """True for an answer that has anything of this kind of engine."""
    return any(name in now.samples or f"{name}_count" in now.samples for name in kind.starts)


def _last(full: str) -> str:
    name = full.partition("?")[0].rstrip("/").rpartition("/")[2]
    return name if _MODEL.fullmatch(name) else ""


def _read(way: Way, before: Answer | None, now: Answer) -> float | str:
    if isinstance(way, Total | Average):
        return _picked(way, now)
    if isinstance(way, Share):
        part, whole = (_numbers(Pick(way.name, (way.label, value)), now) for value in (way.part, way.whole))
        if part is None or whole is None:
            return "unsupported"
        return math.fsum(part) / math.fsum(whole) if math.fsum(whole) > 0 else "not_found"
    if isinstance(way, Quotient):
        if way.above not in now.samples or way.below not in now.samples:
            return "unsupported"
        above, below = _grown(way.above, before, now), _grown(way.below, before, now)
        if above is None or below is None:
            return "no_previous"
        return above / below * way.scale if below > 0 else "not_found"
    name = next((name for name in way.names if f"{name}_count" in now.samples), None)
    if name is None:
        return "unsupported"
    histogram = _histogram(name, before, now)
    if histogram is None:
        return "no_previous"
    if histogram.number <= 0:
        return "not_found"  # no request in the interval
    if isinstance(way, HistogramMean):
        return histogram.total / histogram.number * way.scale
    found = _quantile(histogram, way.quantile)
    return found if isinstance(found, str) else found * way.scale


def _picked(way: Total | Average, now: Answer) -> float | str:
    for pick in way.picks:
        numbers = _numbers(pick, now)
        if numbers is not None:
            if isinstance(way, Total):
                return math.fsum(numbers) if all(map(math.isfinite, numbers)) else "not_a_number"
            return math.fsum(numbers) / len(numbers) if all(map(math.isfinite, numbers)) else "not_a_number"
    return "unsupported"


def _numbers(pick: Pick, now: Answer) -> list[float] | None:
    """The values of the picked samples; None where the engine does not tell them."""
    told = now.samples.get(pick.name)
    if not told:
        return None
    if pick.where is not None:
        return [value for key, value in told.items() if pick.where in key] or None
    if pick.unless:
        label, *others = pick.unless
        return [value for key, value in told.items() if not any((label, other) in key for other in others)]
    return list(told.values())


def _grown(name: str, before: Answer | None, now: Answer) -> float | None:
    """How much a counter grew over all its series; None without an answer before, and where one began anew."""
    if before is None:
        return None
    grown = 0.0
    earlier = before.samples.get(name, {})
    told = now.samples.get(name, {})
    for key in earlier:
        if key not in told:
            return None  # a replica ended
    for key, value in told.items():
        step = value - earlier.get(key, 0.0)  # a series that is new counted all of it since
        if not step >= 0 or math.isinf(step):
            return None
        grown += step
    return grown


def _histogram(name: str, before: Answer | None, now: Answer) -> _Grown | None:
    total, count = _grown(f"{name}_sum", before, now), _grown(f"{name}_count", before, now)
    if before is None or total is None or count is None:
        return None
    buckets: dict[float, float] = {}
    earlier = before.samples.get(f"{name}_bucket", {})
    for key, value in now.samples.get(f"{name}_bucket", {}).items():
        step = value - earlier.get(key, 0.0)
        bound = _bound(dict(key).get("le", ""))
        if not step >= 0 or bound is None:
            return None
        buckets[bound] = buckets.get(bound, 0.0) + step
    return _Grown(buckets, total, count)


def _bound(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _quantile(histogram: _Grown, quantile: float) -> float | str:
    """Where the share `quantile` of the observations ends; above the last finite bound nobody knows how far."""
    bounds = sorted(histogram.buckets)
    if not bounds or bounds[-1] != math.inf or histogram.buckets[math.inf] <= 0:
        return "not_a_number"
    wanted = quantile * histogram.buckets[math.inf]
    low, below = 0.0, 0.0
    for bound in bounds:
        reached = histogram.buckets[bound]
        if reached >= wanted:
            if bound == math.inf:
                return "out_of_range"
            return low + (bound - low) * ((wanted - below) / (reached - below) if reached > below else 1.0)
        low, below = bound, reached
    return "not_a_number"  # buckets that fall
