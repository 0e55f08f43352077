"""Requests wait although others are served: the service is short of capacity.

Where the cache or the cap on sequences is what they wait for, that is said instead.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="serving-queue-growth",
    scope="service",
    severity="warn",
    bottleneck="compute",
    needs=(
        Need(("requests_waiting", "waiting_share", "queue_s")),
        Need(
            ("requests_waiting", "waiting_share"),
            "medium",
            opens=(c.requests_waiting >= param("waiting_opens")) & (c.waiting_share >= param("waiting_share_opens")),
        ),
    ),
    thresholds=(
        Threshold("waiting_opens", 1.0, "requests", 0.1, 1e5),
        Threshold("waiting_share_opens", 0.5, "ratio", 0.05, 1.0),
        Threshold("waiting_share_clears", 0.2, "ratio", 0.0, 1.0),
        Threshold("queue_opens_s", 0.2, "seconds", 0.001, 600.0),
    ),
    opens=(c.requests_waiting >= param("waiting_opens"))
    & (c.waiting_share >= param("waiting_share_opens"))
    & (c.queue_s >= pl.coalesce(0.2 * c.note_ttft_slo_s, param("queue_opens_s"))),
    clears=c.waiting_share < param("waiting_share_clears"),
    unless=(c.age_s < 180) | (c.note_latency_slo_s == 0),
    yields_to=("kv-cache-preemption",),
    title=_("Requests wait: the service is short of capacity"),
    summary=_(
        "{requests_waiting:.0f} requests wait on average, {queue_s:.2f} s each, while {requests_running:.0f} run; {finished_per_s:.2f} finish a second and the cache is {kv_cache_used:.0%} full."
    ),
    cases=(
        Says(
            c.queue_s.is_null(),
            _(
                "{requests_waiting:.0f} requests wait on average while {requests_running:.0f} run; {finished_per_s:.2f} finish a second."
            ),
        ),
    ),
    evidence=(
        Show("requests_waiting", "requests", ">=", "waiting_opens"),
        Show("waiting_share", "ratio", ">=", "waiting_share_opens"),
        Show("queue_s", "seconds", ">=", "queue_opens_s"),
        Show("requests_waiting_growth_per_min", "per_minute"),
        Show("requests_running", "requests"),
        Show("max_num_seqs", "requests"),
        Show("kv_cache_used", "ratio"),
        Show("ttft_p95_s", "seconds"),
    ),
    change=(
        Step(
            "flag",
            "--max-num-seqs {seqs_that_fit:.0f}  # the cap is reached and the cache has room",
            when=(c.kind == "vllm") & (c.requests_running >= 0.95 * c.max_num_seqs) & (c.kv_cache_used < 0.8),
        ),
        Step(
            "flag",
            "--max-running-requests {seqs_that_fit:.0f}  # the cap is reached and the cache has room",
            when=(c.kind == "sglang") & (c.requests_running >= 0.95 * c.max_num_seqs) & (c.kv_cache_used < 0.8),
        ),
        Step("config", "replicas: +1  # scale on waiting requests, not on the processor or on GPU utilisation"),
    ),
    recovers=0.0,
    risk=_("A replica costs its GPUs."),
    rollback=_("Take the replica away, or set the old cap."),
    verify=_(
        "Nothing waits at 95 % of the samples, and the queue takes less than a tenth of the latency target over three daily peaks."
    ),
    measure="queue_mean_s",
    sources=("docs.vllm.ai: metrics", "docs.nvidia.com/deeplearning/triton-inference-server: metrics"),
)
