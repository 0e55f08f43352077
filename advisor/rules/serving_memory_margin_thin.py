"""A serving engine that leaves next to no memory for its peaks.

The fraction that it takes at its start leaves no room for activations, graphs and a neighbour: it ends with an out-of-memory error under
load, and each cold start costs minutes.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_FRACTION = pl.coalesce(c.flag_gpu_memory_utilization, c.flag_mem_fraction_static)
_HIGH = pl.when(c.kind == "sglang").then(param("sglang_fraction_opens")).otherwise(param("vllm_fraction_opens"))

RULE = Rule(
    id="serving-memory-margin-thin",
    scope="service",
    severity="warn",
    bottleneck=None,
    group="capacity",
    needs=(Need(("memory_fraction", "mem_free_min_bytes"), "medium"),),
    thresholds=(
        Threshold("vllm_fraction_opens", 0.95, "ratio", 0.3, 1.0),
        Threshold("sglang_fraction_opens", 0.92, "ratio", 0.3, 1.0),
        Threshold("mem_free_opens_bytes", 1.5 * (1 << 30), "bytes", 0.0, 1e12),
        Threshold("mem_free_clears_bytes", 2.0 * (1 << 30), "bytes", 0.0, 1e12),
        Threshold("restarts_opens", 1.0, "events", 1.0, 1000.0),
    ),
    opens=(c.memory_fraction >= _HIGH)
    & ((c.mem_free_min_bytes < param("mem_free_opens_bytes")) | (c.restarts_7d >= param("restarts_opens")) | (c.tenants >= 2)),
    clears=(c.memory_fraction < _HIGH)
    | (
        (c.mem_free_min_bytes >= param("mem_free_clears_bytes"))
        & (c.restarts_7d.fill_null(0) < param("restarts_opens"))
        & (c.tenants.fill_null(1) < 2)
    ),
    unless=c.flag_kv_cache_memory_bytes.is_not_null(),
    title=_("The engine's share of memory leaves no room for peaks"),
    summary=_("The engine takes {memory_fraction:.2f} of the memory, and {mem_free_min_gib:.1f} GiB stayed free at least."),
    cases=(
        Says(
            (c.tenants >= 2).fill_null(False),
            _(
                "The engine takes {memory_fraction:.2f} of the memory of a GPU on which {tenants:.0f} programs compute; it does not see the others."
            ),
        ),
        Says(
            (c.restarts_7d >= 1).fill_null(False),
            _(
                "The engine takes {memory_fraction:.2f} of the memory, {mem_free_min_gib:.1f} GiB stayed free at least, and it was started again {restarts_7d:.0f} time(s) in seven days."
            ),
        ),
    ),
    evidence=(
        Show("memory_fraction", "ratio", ">=", "vllm_fraction_opens"),
        Show("mem_free_min_bytes", "bytes", "<", "mem_free_opens_bytes"),
        Show("restarts_7d", "events", ">=", "restarts_opens"),
        Show("kv_cache_used_max", "ratio"),
    ),
    change=(
        Step("flag", "--gpu-memory-utilization 0.90", when=c.kind.is_null() | (c.kind == "vllm")),
        Step("flag", "--kv_cache_free_gpu_mem_fraction 0.85", when=c.kind == "trtllm"),
        Step("config", "instance_group [{{ count: 1, kind: KIND_GPU }}]  # one copy of the model a GPU", when=c.kind == "triton"),
        Step("flag", "--mem-fraction-static 0.88", when=c.kind == "sglang"),
        Step("flag", "--max-num-batched-tokens 8192  # smaller peaks of activations", when=c.kind == "vllm"),
    ),
    recovers=0.0,
    risk=_("Fewer tokens fit into the KV cache: watch preemptions."),
    rollback=_("Set the old fraction."),
    verify=_(
        "At least {mem_free_opens_gib:.1f} GiB stays free and nothing is started again for seven days, with no more preemptions than before."
    ),
    sources=("docs.vllm.ai: Optimization and Tuning", "docs.sglang.ai: hyperparameter tuning"),
)
