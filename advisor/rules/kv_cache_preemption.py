"""The KV cache is full, and requests are thrown out of it to be computed again.

vLLM calls it preemption, SGLang retraction: what was generated of a sequence is computed anew when it has room again.
"""

import polars as pl

from advisor.room import SERVICE_MEMORY
from advisor.rule import Expect, Need, Rule, Show, Step, Terms, Threshold, param
from advisor.text import _

c = pl.col

_FP8 = (c.kind == "vllm") & c.flag_kv_cache_dtype.fill_null("auto").is_in(["auto", "bf16", "bfloat16", "fp16"])

RULE = Rule(
    id="kv-cache-preemption",
    scope="service",
    severity="warn",
    bottleneck="memory_bandwidth",
    needs=(Need(("preemptions_per_s", "kv_cache_used")),),
    thresholds=(
        Threshold("preemptions_per_s_opens", 0.05, "per_second", 0.0, 1000.0),
        Threshold("preemptions_per_s_clears", 0.01, "per_second", 0.0, 1000.0),
        Threshold("preemptions_per_request_opens", 0.01, "ratio", 0.0, 10.0),
        Threshold("kv_cache_used_opens", 0.90, "ratio", 0.1, 1.0),
    ),
    opens=(
        (c.preemptions_per_s > param("preemptions_per_s_opens"))
        | (c.preemptions_per_request >= param("preemptions_per_request_opens"))
    )
    & (c.kv_cache_used_max >= param("kv_cache_used_opens")),
    clears=(c.preemptions_per_s < param("preemptions_per_s_clears")) & (c.kv_cache_used < param("kv_cache_used_opens")),
    unless=c.age_s < 180,
    title=_("The KV cache is full and requests are preempted"),
    summary=_(
        "{preemptions_per_s:.2f} requests a second are thrown out of the KV cache, which is {kv_cache_used:.0%} full, and computed again; {requests_running:.0f} run, {requests_waiting:.0f} wait."
    ),
    evidence=(
        Show("preemptions_per_s", "per_second", ">", "preemptions_per_s_opens"),
        Show("preemptions_per_request", "ratio", ">=", "preemptions_per_request_opens"),
        Show("kv_cache_used", "ratio"),
        Show("kv_cache_used_max", "ratio", ">=", "kv_cache_used_opens"),
        Show("requests_running", "requests"),
        Show("requests_waiting", "requests"),
        Show("tokens_per_request", "tokens"),
        Show("tpot_p95_s", "seconds"),
    ),
    change=(
        Step(
            "flag", "--max-num-seqs {seqs_that_fit:.0f}  # as many as the cache holds at today's lengths", when=c.kind == "vllm"
        ),
        Step(
            "flag",
            "--kv-cache-dtype fp8  # twice the tokens, after a check of quality",
            when=_FP8,
        ),
        Step("flag", "--max-running-requests {seqs_that_fit:.0f}", when=c.kind == "sglang"),
        Step("flag", "--mem-fraction-static 0.90  # where memory is free beside it", when=(c.kind == "sglang") & SERVICE_MEMORY),
        Step("flag", "--max_batch_size {seqs_that_fit:.0f}", when=c.kind == "trtllm"),
        Step(
            "flag",
            "--kv_cache_free_gpu_mem_fraction 0.92  # where memory is free beside it",
            when=(c.kind == "trtllm") & SERVICE_MEMORY,
        ),
        Step(
            "config",
            'parameters {{ key: "kv_cache_free_gpu_mem_fraction" value {{ string_value: "0.92" }} }}  # config.pbtxt, TensorRT-LLM backend',
            when=(c.kind == "triton") & SERVICE_MEMORY,
        ),
        Step("config", "max_batch_size: {seqs_that_fit:.0f}  # config.pbtxt, TensorRT-LLM backend", when=c.kind == "triton"),
        Step("config", "replicas: +1  # where the queue grows once sequences are fewer", when=c.requests_waiting >= 1),
    ),
    gain=Expect(1.05, 1.2, _("Work that is done twice falls away: 5 to 20 % of throughput, 20 to 60 % of the slowest requests.")),
    risk=_("Fewer sequences lengthen the queue; a larger fraction may run out of memory."),
    rollback=_("Set the old flag."),
    verify=_(
        "Less than {preemptions_per_s_clears:.2f} preemptions a second and a cache under {kv_cache_used_opens:.0%} for 24 hours at the same load."
    ),
    terms=(
        Terms(
            _FP8,
            _("Fewer sequences lengthen the queue; a cache in FP8 needs a check of quality."),
            _("Set the old flags."),
            _(
                "Less than {preemptions_per_s_clears:.2f} preemptions a second and a cache under {kv_cache_used_opens:.0%} for 24 hours at the same load."
            ),
        ),
        Terms(
            ~SERVICE_MEMORY | (c.kind == "vllm"),
            _("Fewer sequences lengthen the queue."),
            _("Set the old flag."),
            _(
                "Less than {preemptions_per_s_clears:.2f} preemptions a second and a cache under {kv_cache_used_opens:.0%} for 24 hours at the same load."
            ),
        ),
    ),
    measure="tpot_p95_s",
    sources=(
        _("docs.vllm.ai: Optimization and Tuning (preemption)"),
        "docs.sglang.ai: hyperparameter tuning",
        "planner inference-memory",
    ),
)
