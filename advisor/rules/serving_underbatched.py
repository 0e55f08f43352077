"""Decoding with so few sequences at once that the arithmetic units are all but idle.

Tensor activity while busy 0.03 at batch 1 and 0.24 at batch 64, at the same memory traffic: the weights that are read anyway could
serve more sequences. Without the engine's own metrics this is a proxy.

Gain: up to a quarter of the tensor pipe (64 sequences on an H200) speed goes with the batch, measured at 0.90 of it from 8 and from 1 to 64.
Where the batch is told, the range is 0.6 to 1.0 of that; else tensor activity tells it, but for the padding of kernels that fill tiles of 8: less than
8 sequences look like 8 (advisor/decoding.py). Reads of each sequence's own KV cache, which nothing shares, are why the low end is lower.
"""

import polars as pl

from advisor.decoding import REACH, TILE
from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.started import NO_ENGINE, SGLANG, VLLM
from advisor.text import _

c = pl.col

_TIMES = c.sequences_planned / c.sequences_now.clip(1)
_BY_TENSOR = REACH / c.tensor_active_when_busy
_PADDING = (c.sequences_padded.clip(TILE) / (c.sequences_padded - (TILE - 1)).clip(1)).fill_null(TILE)

RULE = Rule(
    id="serving-underbatched",
    scope="job",
    severity="advice",
    bottleneck="memory_bandwidth",
    needs=(Need(("busy", "dram_active", "tensor_active"), "medium"),),
    thresholds=(
        Threshold("share_memory_bandwidth_opens", 0.4, "ratio", 0.0, 1.0),
        Threshold("dram_active_when_busy_opens", 0.6, "ratio", 0.0, 1.0),
        Threshold("dram_active_when_busy_clears", 0.5, "ratio", 0.0, 1.0),
        Threshold("tensor_active_when_busy_opens", 0.085, "ratio", 0.0, 1.0),
        Threshold("tensor_active_when_busy_clears", 0.12, "ratio", 0.0, 1.0),
        Threshold("mem_used_share_max_opens", 0.8, "ratio", 0.0, 1.0),
        Threshold("mem_used_share_max_clears", 0.9, "ratio", 0.0, 1.0),
    ),
    opens=(c.share_memory_bandwidth >= param("share_memory_bandwidth_opens"))
    & (c.dram_active_when_busy >= param("dram_active_when_busy_opens"))
    & (c.tensor_active_when_busy < param("tensor_active_when_busy_opens"))
    & (c.tensor_active_when_busy >= 0.002)
    & (c.mem_used_share_max < param("mem_used_share_max_opens")),
    clears=(c.dram_active_when_busy < param("dram_active_when_busy_clears"))
    | (c.tensor_active_when_busy >= param("tensor_active_when_busy_clears"))
    | (c.mem_used_share_max >= param("mem_used_share_max_clears")),
    unless=c.fp32_active_when_busy >= 0.3,
    title=_("Few sequences share each read of the weights"),
    summary=_(
        "The tensor cores are active {tensor_active_when_busy:.1%} of the busy time while memory runs at"
        " {dram_active_when_busy:.0%}, and {mem_used_share_max:.0%} of the memory is in use: there is room for a larger batch."
    ),
    evidence=(
        Show("tensor_active_when_busy", "ratio", "<", "tensor_active_when_busy_opens"),
        Show("dram_active_when_busy", "ratio", ">=", "dram_active_when_busy_opens"),
        Show("mem_used_share_max", "ratio", "<", "mem_used_share_max_opens"),
        Show("sm_occupancy", "ratio"),
        Show("sequences_now", "sequences"),
        Show("sequences_padded", "sequences"),
        Show("sequences_planned", "sequences"),
    ),
    change=(
        Step("flag", "--max-num-seqs 512 --max-num-batched-tokens 16384  # vLLM", when=VLLM),
        Step("flag", "--max-running-requests 512 --chunked-prefill-size 16384  # SGLang", when=SGLANG),
        Step("flag", "--max_batch_size 512 --max_num_tokens 16384  # TensorRT-LLM", when=c.serving_engine == "trtllm"),
        Step(
            "config",
            "max_batch_size: 64\ndynamic_batching {{ max_queue_delay_microseconds: 500 }}  # Triton",
            when=c.serving_engine == "triton",
        ),
        Step("command", "vllm serve MODEL --max-num-seqs 512  # an engine, in place of the script's own loop", when=NO_ENGINE),
        Step(
            "diff",
            "- for prompt in prompts: generate(prompt)\n+ generate(prompts)  # about {sequences_planned} at once; or serve with continuous batching",
            when=NO_ENGINE & c.sequences_planned.is_not_null(),
        ),
        Step(
            "diff",
            "- for prompt in prompts: generate(prompt)\n+ generate(prompts)  # one batch; or serve with continuous batching",
            when=NO_ENGINE & c.sequences_planned.is_null(),
        ),
    ),
    gain=Expect(
        pl.coalesce(0.6 * _TIMES, 0.8 * _BY_TENSOR).clip(1.05, 60.0),
        pl.coalesce(_TIMES, _BY_TENSOR * _PADDING).clip(1.2, 64.0),
        _(
            "The batch that would fill a quarter of the tensor pipe over today's; while memory limits, speed goes with it. Where nobody tells"
            " today's batch, tensor activity does, and the range spans what tiles of 8 hide. For comparison, 64 sequences instead of 8 gave 7.2"
            " times the tokens/s, 64 instead of 1 58 times (286 to 16,666)."
        ),
    ),
    risk=_("Each sequence waits a little longer for its tokens: stop at 0.8 of the latency target."),
    rollback=_("Set the old limit."),
    verify=_("Tokens per second rise by 15 % at the same arrivals with the latency target met for a day."),
    sources=("docs.vllm.ai: optimization and tuning", "recording decode_b1"),
)
