"""A model served over more GPUs than its weights need: they talk instead of computing.

Half the GPUs would hold its weights and a cache (PL-2); two replicas then serve more. Where a latency target needs the width, it stays.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_HALF_FITS = c.weights_bytes / (c.tp / 2) <= param("weights_share_opens") * c.mem_total_bytes

RULE = Rule(
    id="tp-oversized-serving",
    scope="service",
    severity="advice",
    bottleneck="communication",
    needs=(Need(("tp", "weights_bytes", "mem_total_bytes", "sm_active"), "low"),),
    thresholds=(
        Threshold("weights_share_opens", 0.5, "ratio", 0.05, 0.9),
        Threshold("sm_active_opens", 0.4, "ratio", 0.02, 1.0),
        Threshold("sm_active_clears", 0.55, "ratio", 0.02, 1.0),
        Threshold("kv_cache_used_opens", 0.4, "ratio", 0.02, 1.0),
    ),
    opens=(c.tp >= 2)
    & _HALF_FITS
    & (c.sm_active < param("sm_active_opens"))
    & (c.kv_cache_used < param("kv_cache_used_opens"))
    & (c.requests_running >= 1),
    clears=(c.tp < 2) | ~_HALF_FITS | (c.sm_active >= param("sm_active_clears")),
    unless=(c.tpot_s > 0.8 * c.note_itl_slo_s).fill_null(False) | c.flag_enable_expert_parallel.fill_null(False),
    title=_("The model is served over more GPUs than it needs"),
    summary=_(
        "{model} is split over {tp:.0f} GPUs though its weights, about {weights_gib:.0f} GiB by its name, fit on half of them with room for a cache; SMs are active {sm_active:.0%} of the time."
    ),
    evidence=(
        Show("tp", "gpus", ">=", 2.0),
        Show("weights_bytes", "bytes"),
        Show("mem_total_bytes", "bytes"),
        Show("sm_active", "ratio", "<", "sm_active_opens"),
        Show("kv_cache_used", "ratio", "<", "kv_cache_used_opens"),
        Show("nvlink_share", "ratio"),
    ),
    change=(
        Step("flag", "--tensor-parallel-size {tp_half:.0f} --data-parallel-size 2", when=c.kind == "vllm"),
        Step("flag", "--tp {tp_half:.0f} --dp 2", when=c.kind == "sglang"),
        Step("config", "# two replicas of {tp_half:.0f} GPU(s) behind the router", when=~c.kind.is_in(["vllm", "sglang"])),
    ),
    gain=Expect(1.2, 1.9, _("Tokens a second of each GPU; half of the exchange between them falls away.")),
    risk=_("A single request takes longer, and each replica has less cache."),
    rollback=_("Set the old size."),
    verify=_("Tokens per second of each GPU up by 15 %, and the time between tokens within its target for 24 hours."),
    sources=("docs.vllm.ai: Parallelism and Scaling", "planner inference-memory"),
)
