"""Triton runs requests one at a time while others wait."""

import polars as pl

from advisor.room import SERVICE_MEMORY
from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="triton-dynamic-batching-off",
    scope="service",
    severity="advice",
    bottleneck="underfilled",
    needs=(Need(("batch_size", "finished_per_s", "waiting_share")),),
    thresholds=(
        Threshold("batch_size_opens", 1.2, "requests", 1.0, 64.0),
        Threshold("batch_size_clears", 2.0, "requests", 1.0, 64.0),
        Threshold("finished_per_s_opens", 10.0, "per_second", 0.1, 1e6),
        Threshold("waiting_share_opens", 0.10, "ratio", 0.0, 1.0),
    ),
    opens=(c.kind == "triton")
    & (c.batch_size < param("batch_size_opens"))
    & (c.finished_per_s >= param("finished_per_s_opens"))
    & (c.waiting_share >= param("waiting_share_opens")),
    clears=(c.kind != "triton")
    | (c.batch_size >= param("batch_size_clears"))
    | (c.waiting_share < 0.5 * param("waiting_share_opens")),
    title=_("Triton runs requests one at a time"),
    summary=_(
        "An execution serves {batch_size:.2f} requests on average at {finished_per_s:.0f} requests a second, and requests wait {waiting_share:.0%} of the time."
    ),
    evidence=(
        Show("batch_size", "requests", "<", "batch_size_opens"),
        Show("finished_per_s", "per_second", ">=", "finished_per_s_opens"),
        Show("waiting_share", "ratio", ">=", "waiting_share_opens"),
        Show("queue_s", "seconds"),
        Show("sm_active", "ratio"),
    ),
    change=(
        Step("config", "max_batch_size: 32\ndynamic_batching {{ max_queue_delay_microseconds: 500 }}"),
        Step("config", "instance_group [{{ count: 2, kind: KIND_GPU }}]  # two copies of the model a GPU", when=SERVICE_MEMORY),
        Step("command", "perf_analyzer -m MODEL --concurrency-range 1:32 --percentile=99"),
    ),
    gain=Expect(1.5, 4.0, _("Throughput in published measurements; more than twice is common for small models.")),
    risk=_("The delay adds its value to the latency at most."),
    rollback=_("Take dynamic_batching out of config.pbtxt."),
    verify=_("A mean batch of three at the peak, 30 % more capacity, and the slowest requests within their target."),
    measure="served_per_s",
    sources=("docs.nvidia.com/deeplearning/triton-inference-server/user-guide: dynamic batcher",),
)
