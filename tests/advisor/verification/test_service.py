"""Verdicts on changes to serving engines: right ratios at like load, and a sentence where the load was not alike."""

from typing import Any

import polars as pl
import pytest

from advisor.rule import Rule, load
from advisor.verification.service import compare_service, is_measured, of_rows
from advisor.verification.stretch import Stretch

RULES = {rule.id: rule for rule in load()}
WAVE = [1 + 0.02 * ((7 * k) % 5 - 2) for k in range(300)]


def serves(
    requests_per_s: float = 4.0, *, tokens: float = 200.0, waiting: float = 0.0, model: str = "llama", **latency: Any
) -> Stretch:
    """Five minutes of an engine, a scrape a second: requests of so many tokens, latencies that vary by 4 %."""
    rows: list[dict[str, Any]] = [
        {
            "t": 1000.0 + k, "requests_finished_total": 50 + requests_per_s * (k + 0.1 * (k % 3)), "requests_waiting": waiting,
            "generation_tokens_total": tokens * requests_per_s * k, "prompt_tokens_total": 3 * tokens * requests_per_s * k,
            **{name: value * WAVE[k] for name, value in latency.items()},
        }
        for k in range(300)
    ]  # fmt: skip
    return of_rows(pl.DataFrame(rows), "http://h:8000", model)


@pytest.mark.parametrize(
    ("rule", "metric"),
    [
        ("serving-queue-growth", "queue_mean_s"),
        ("prefill-ttft-breach", "ttft_p95_s"),
        ("kv-cache-preemption", "tpot_p95_s"),
        ("serving-latency-regression", "e2e_mean_s"),
        ("latency-clock-jitter", "e2e_mean_s"),
        ("background-job-latency-spikes", "e2e_mean_s"),
    ],
)
@pytest.mark.parametrize(("after", "verdict", "ratio"), [(0.5, "helped", 2.0), (1.0, "no_effect", 1.0), (1.25, "worse", 0.8)])
def test_latency_at_like_load_gives_the_verdict(rule: str, metric: str, after: float, verdict: str, ratio: float) -> None:
    """Each rule by its own: half the time is twice as fast, and no estimate."""
    slow: dict[str, Any] = {metric: 1.0}
    fast: dict[str, Any] = {metric: after}
    found = compare_service(RULES[rule], serves(**slow), [serves(4.2, **fast)])

    assert found.verdict == verdict
    assert found.measure is not None
    assert (found.measure.id, found.is_estimate) == (metric, False)
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(ratio, rel=0.02)


def test_a_queue_that_is_gone_helped() -> None:
    """Nothing waits any more: 0.4 s against the millisecond that a queue of nothing counts as."""
    found = compare_service(RULES["serving-queue-growth"], serves(queue_mean_s=0.4, waiting=9), [serves(queue_mean_s=0.0)])

    assert found.verdict == "helped"
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(400, rel=0.02)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (serves(4.5, e2e_mean_s=0.5), "The load was not alike: 4.00 requests a second before, 4.50 after; more than 10% apart"),
        (serves(3.5, e2e_mean_s=0.5), "The load was not alike: 4.00 requests a second before, 3.50 after; more than 10% apart"),
        (serves(0.0, e2e_mean_s=0.5), "The service finished no requests on one side"),
        (serves(4.0, tokens=150, e2e_mean_s=0.5), "The requests were not alike: 600 tokens each before, 450 after"),
        (serves(4.0, model="qwen", e2e_mean_s=0.5), "Not the same program: llama before, qwen after."),
        (serves(4.0, ttft_p95_s=0.5), "Without reported tokens, samples or steps the verdict needs time of a request"),
    ],
)
def test_what_is_not_alike_cannot_be_told(after: Stretch, why: str) -> None:
    """However much faster it is."""
    found = compare_service(RULES["serving-latency-regression"], serves(e2e_mean_s=1.0), [after])

    assert found.verdict == "cannot_tell"
    assert found.reason.id.format(**found.reason.params).startswith(why)


def test_throughput_counts_where_requests_wait_on_both_sides() -> None:
    """Then it is what the engine can do; else it is what was asked of it."""
    rule: Rule = RULES["triton-dynamic-batching-off"]
    full = compare_service(rule, serves(4.0, waiting=5), [serves(6.0, waiting=3)])
    asked = compare_service(rule, serves(4.0, waiting=5), [serves(6.0)])

    assert full.verdict == "helped"
    assert full.ratio is not None
    assert full.ratio.value == pytest.approx(1.5, rel=0.03)
    assert (asked.verdict, asked.ratio) == ("cannot_tell", None)
    assert asked.reason.id.startswith("Requests did not wait on both sides")


def test_advice_that_shows_in_no_figure_of_a_service_says_so() -> None:
    """Of a build recipe, of memory that is left, of quality."""
    for rule in RULES.values():
        if rule.scope == "service" and not is_measured(rule):
            found = compare_service(rule, serves(e2e_mean_s=1.0), [serves(e2e_mean_s=0.5)])
            assert found.verdict == "cannot_tell"
            assert found.reason.id.startswith("What this advice changes does not show")
    assert {rule.id for rule in RULES.values() if rule.scope == "service" and not is_measured(rule)} == {
        "autoscale-wrong-signal", "lowprec-quality-gate", "serving-cold-start", "serving-memory-margin-thin", "tensorrt-removed-flags",
        "tp-oversized-serving",
    }  # fmt: skip


def test_a_counter_that_begins_anew_is_a_restart_and_no_negative_load() -> None:
    """The engine was started again in the middle: four a second on either side of it."""
    rows = serves(e2e_mean_s=0.5).samples.with_columns(
        pl.when(pl.col("t") >= 1150)
        .then(pl.col("requests_finished_total") - 645)
        .otherwise("requests_finished_total")
        .alias("requests_finished_total")
    )
    found = compare_service(
        RULES["serving-latency-regression"],
        serves(e2e_mean_s=1.0),
        [of_rows(rows.drop("served_per_s"), "http://h:8000", "llama")],
    )

    assert found.verdict == "helped"
