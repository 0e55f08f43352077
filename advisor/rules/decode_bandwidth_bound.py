"""Streaming weights from memory limits the job: the signature of decoding at a small batch.

While busy: DRAM 0.77 and tensor 0.03 at batch 1, 0.72 and 0.24 at batch 64 (healthy). Elementwise work has no tensor activity at
all, FP32 streaming more FP32 than this.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.started import NO_ENGINE, SGLANG, VLLM
from advisor.text import _

c = pl.col

RULE = Rule(
    id="decode-bandwidth-bound",
    scope="job",
    severity="advice",
    bottleneck="memory_bandwidth",
    needs=(Need(("busy", "dram_active", "tensor_active"), "medium"),),
    thresholds=(
        Threshold("share_memory_bandwidth_opens", 0.4, "ratio", 0.0, 1.0),
        Threshold("dram_active_when_busy_opens", 0.6, "ratio", 0.0, 1.0),
        Threshold("dram_active_when_busy_clears", 0.5, "ratio", 0.0, 1.0),
        Threshold("tensor_active_when_busy_opens", 0.12, "ratio", 0.0, 1.0),
        Threshold("tensor_active_when_busy_clears", 0.18, "ratio", 0.0, 1.0),
    ),
    opens=(c.share_memory_bandwidth >= param("share_memory_bandwidth_opens"))
    & (c.dram_active_when_busy >= param("dram_active_when_busy_opens"))
    & (c.tensor_active_when_busy < param("tensor_active_when_busy_opens"))
    & (c.tensor_active_when_busy >= 0.002),
    clears=(c.dram_active_when_busy < param("dram_active_when_busy_clears"))
    | (c.tensor_active_when_busy >= param("tensor_active_when_busy_clears")),
    unless=c.fp32_active_when_busy >= 0.3,
    title=_("Reading weights from memory limits the speed"),
    summary=_(
        "Device memory was active {dram_active_when_busy:.0%} of the busy time and the tensor cores {tensor_active_when_busy:.1%}:"
        " each step reads all weights for little arithmetic, as decoding does."
    ),
    evidence=(
        Show("dram_active_when_busy", "ratio", ">=", "dram_active_when_busy_opens"),
        Show("tensor_active_when_busy", "ratio", "<", "tensor_active_when_busy_opens"),
        Show("share_memory_bandwidth", "ratio", ">=", "share_memory_bandwidth_opens"),
        Show("sm_active", "ratio"),
    ),
    change=(
        Step("flag", "vllm serve MODEL --quantization fp8 --kv-cache-dtype fp8", when=VLLM),
        Step(
            "flag", "python -m sglang.launch_server --model-path MODEL --quantization fp8 --kv-cache-dtype fp8_e5m2", when=SGLANG
        ),
        Step(
            "diff",
            "+ from torchao.quantization import quantize_, Int8WeightOnlyConfig\n+ quantize_(model, Int8WeightOnlyConfig())",
            when=NO_ENGINE,
        ),
        Step("command", "vllm serve MODEL --quantization fp8  # an engine, in place of the script's own loop", when=NO_ENGINE),
        Step(
            "command",
            "trtllm-serve CHECKPOINT  # one that NVIDIA's Model Optimizer has quantised to FP8",
            when=~NO_ENGINE & ~VLLM & ~SGLANG,
        ),
        Step("flag", 'vllm serve MODEL --speculative-config \'{{"method": "ngram", "num_speculative_tokens": 4}}\'', when=VLLM),
    ),
    gain=Expect(
        1.3,
        3.0,
        _("Bytes of weights read for each token: 16 to 8 bits about 1.3 to 1.8 times, 16 to 4 bits 1.8 to 3; an estimate."),
    ),
    risk=_("Quantisation can cost quality: evaluate before and after."),
    rollback=_("Serve the original checkpoint."),
    verify=_("Time for each token falls by 20 % at the same batch and the quality metric by 1 % at most."),
    sources=("docs.vllm.ai: quantization", "recording decode_b1"),
)
