"""Whether a change to a serving engine helped: its latency, its queue or its throughput before and after.

Latency follows load, so that only times of like load are compared: as many requests a second, with as many tokens each. Throughput is the
load, unless requests wait on both sides: then it is what the engine can do.
"""

from collections.abc import Sequence
from typing import Final

import polars as pl

from advisor.rule import Rule
from advisor.text import Text, _
from advisor.verification import measure as measures
from advisor.verification.compare import Comparison, compare
from advisor.verification.stretch import REPORTED_METRICS, Stretch

LATENCIES: Final = ("ttft_p95_s", "tpot_p95_s", "queue_mean_s", "e2e_mean_s")
COUNTERS: Final = ("requests_finished_total", "prompt_tokens_total", "generation_tokens_total")
METRICS: Final = (*LATENCIES, *COUNTERS, "requests_waiting")
"""What is read of an engine."""
APART: Final = 0.10
"""How far load and tokens of a request may differ and still be alike: what the rule of latency against its own days takes too."""
WAITS: Final = 0.5
"""Share of the time in which requests must wait for throughput to be what the engine can do."""

NO_SPEED: Final = _(
    "What this advice changes does not show in the service's latency, queue or throughput: check it as the finding says how to verify it."
)
NO_LOAD: Final = _(
    "The service finished no requests on one side, or does not tell how many: whether its load was alike is not known."
)
OTHER_LOAD: Final = _(
    "The load was not alike: {before:.2f} requests a second before, {after:.2f} after; more than {apart:.0%} apart latency says nothing of the change."
)
OTHER_REQUESTS: Final = _(
    "The requests were not alike: {before:.0f} tokens each before, {after:.0f} after; more than {apart:.0%} apart they are other work."
)
NOT_FULL: Final = _(
    "Requests did not wait on both sides: the throughput was what was asked of the service, and not what it can do."
)


def of_rows(rows: pl.DataFrame, name: str, model: str, gpu_model: str = "", gpus: int = 0) -> Stretch:
    """A stretch of an engine from its series: `t` and METRICS, as they are stored."""
    lacks = [pl.lit(None, pl.Float64).alias(metric) for metric in (*METRICS, *REPORTED_METRICS) if metric not in rows.columns]
    samples = rows.with_columns(lacks).select("t", *[pl.col(metric).cast(pl.Float64) for metric in (*METRICS, *REPORTED_METRICS)])
    samples = samples.sort("t")
    step = pl.col("requests_finished_total").diff()
    rate = pl.when(step >= 0).then(step / pl.col("t").diff())  # a fall is a new beginning
    return Stretch(name, samples.with_columns(served_per_s=rate), gpu_model, gpus, program=model or None)


def is_measured(rule: Rule) -> bool:
    """True where the rule's own measure is one that engines tell."""
    measure = measures.own(rule)
    return measure is not None and measure.id in measures.OF_SERVICES


def compare_service(rule: Rule, before: Stretch, after: Sequence[Stretch]) -> Comparison:
    """The verdict on one change to a service by the time before it and times after it."""
    measure = measures.own(rule)
    if measure is None or not is_measured(rule):
        return Comparison("cannot_tell", Text(NO_SPEED), before_s=before.length_s)
    for one in after:
        why = _not_full(before, one) if measure.id == "served_per_s" else _other_load(before, one)
        if why or (why := _other_requests(before, one)):
            return Comparison("cannot_tell", why, measure, before_s=before.length_s, after_s=one.length_s)
    return compare(rule, [before], after)


def _grown(stretch: Stretch, counter: str) -> float | None:
    """What the counter grew by; None where it was not read twice."""
    known = stretch.samples.get_column(counter).drop_nulls()
    step = known.diff().drop_nulls()
    grown = pl.select(pl.when(step >= 0).then(step).otherwise(known[1:])).to_series()  # after a fall it began at zero
    return None if step.is_empty() else float(grown.sum())


def _other_load(before: Stretch, after: Stretch) -> Text | None:
    loads = [(_grown(one, COUNTERS[0]) or 0.0) / one.length_s if one.length_s else 0.0 for one in (before, after)]
    if min(loads) <= 0:
        return Text(NO_LOAD)
    return Text(OTHER_LOAD, {"before": loads[0], "after": loads[1], "apart": APART}) if _apart(*loads) else None


def _other_requests(before: Stretch, after: Stretch) -> Text | None:
    """By prompt and by answer; what an engine does not tell (Triton) is not compared."""
    for counter in COUNTERS[1:]:
        sides = [(_grown(one, counter), _grown(one, COUNTERS[0])) for one in (before, after)]
        each = [tokens / requests for tokens, requests in sides if tokens and requests]
        if len(each) == 2 and _apart(*each):
            return Text(OTHER_REQUESTS, {"before": each[0], "after": each[1], "apart": APART})
    return None


def _apart(one: float, other: float) -> bool:
    return abs(other / one - 1) > APART + 1e-9


def _not_full(*sides: Stretch) -> Text | None:
    waits = [one.samples.get_column("requests_waiting").drop_nulls() for one in sides]
    full = all(not known.is_empty() and int((known > 0).sum()) >= WAITS * known.len() for known in waits)
    return None if full else Text(NOT_FULL)
