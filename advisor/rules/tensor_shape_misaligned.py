"""16-bit matrix products miss the fast tensor-core kernels because a dimension is no multiple of 8.

Tensor cores take 16 bytes a row: 8 values of 16 bits, 16 of FP8. A GPT-2 vocabulary of 50,257 is the case that everyone meets. The SMs are
full (0.8) while tensor activity stays below 0.15 and memory below 0.5, so neither launches nor bandwidth explain it. loader_ok has
tensor 0.128 at a healthy pace (convolutions pad by themselves): without a dimension that is told and odd, nothing fires. Vision models are
left out for that reason.

A profile with 16-bit matrix kernels off the tensor cores, beside such a dimension, says the same without the card's counters.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_MULTIPLE = pl.when(c.dtype == "fp8").then(16).otherwise(8)


def _odd(size: pl.Expr) -> pl.Expr:
    return (size % _MULTIPLE != 0).fill_null(False)


_missed = c.profile_half_missed_share
_PROFILED = (_missed >= param("profile_half_missed_share_opens")).fill_null(False)

_VOCABULARY = _odd(c.told_vocab)
_HIDDEN = _odd(c.told_hidden)
_HEAD = _odd(c.told_hidden / c.told_heads)
_TOKENS = _odd(c.micro_batch * c.told_seq)

_PROFILE_CLEARS = (_missed < param("profile_half_missed_share_clears")) | ~(_VOCABULARY | _HIDDEN | _HEAD | _TOKENS)
_COUNTED = (
    (c.sm_active_when_busy >= param("sm_active_when_busy_opens"))
    & (c.tensor_active_when_busy < param("tensor_active_when_busy_opens"))
    & (c.dram_active_when_busy < param("dram_active_when_busy_opens"))
).fill_null(False)

RULE = Rule(
    id="tensor-shape-misaligned",
    scope="job",
    severity="advice",
    bottleneck="compute",
    needs=(
        Need(("sm_active_when_busy", "tensor_active_when_busy", "dram_active_when_busy", "dtype", "told_hidden"), "low"),
        Need(("sm_active_when_busy", "tensor_active_when_busy", "dram_active_when_busy", "dtype", "told_vocab"), "low"),
        Need(("busy", "profile_half_missed_share", "dtype", "told_hidden"), "medium", clears=_PROFILE_CLEARS),
        Need(("busy", "profile_half_missed_share", "dtype", "told_vocab"), "medium", clears=_PROFILE_CLEARS),
    ),
    thresholds=(
        Threshold("sm_active_when_busy_opens", 0.8, "ratio", 0.0, 1.0),
        Threshold("sm_active_when_busy_clears", 0.7, "ratio", 0.0, 1.0),
        Threshold("tensor_active_when_busy_opens", 0.15, "ratio", 0.0, 1.0),
        Threshold("tensor_active_when_busy_clears", 0.2, "ratio", 0.0, 1.0),
        Threshold("dram_active_when_busy_opens", 0.5, "ratio", 0.0, 1.0),
        Threshold("dram_active_when_busy_clears", 0.6, "ratio", 0.0, 1.0),
        Threshold("profile_half_missed_share_opens", 0.10, "ratio", 0.0, 1.0),
        Threshold("profile_half_missed_share_clears", 0.05, "ratio", 0.0, 1.0),
    ),
    opens=c.dtype.is_in(("bf16", "fp16", "fp8")) & (_COUNTED | _PROFILED) & (_VOCABULARY | _HIDDEN | _HEAD | _TOKENS),
    clears=(
        (
            (c.sm_active_when_busy < param("sm_active_when_busy_clears"))
            | (c.tensor_active_when_busy >= param("tensor_active_when_busy_clears"))
            | (c.dram_active_when_busy >= param("dram_active_when_busy_clears"))
        )
        & (_missed < param("profile_half_missed_share_clears")).fill_null(True)
    )
    | ~(_VOCABULARY | _HIDDEN | _HEAD | _TOKENS),
    confirmed=_PROFILED,
    unless=(c.told_class == "vision") | (c.tenants >= 2) | (c.share_launch >= 0.3),
    yields_to=("fp32-without-tensor-cores", "launch-bound-small-kernels", "batch-underfills-gpu", "gpu-co-tenant-contention"),
    title=_("Odd dimensions keep matrix products off the fast tensor-core path"),
    summary=_(
        "Micro-batch times sequence, {micro_batch:.0f} x {told_seq:.0f}, is no multiple of 8, and the tensor cores are active only"
        " {tensor_active_when_busy:.1%} of the busy time at {sm_active_when_busy:.0%} SM activity."
    ),
    cases=(
        Says(
            _PROFILED & ~_COUNTED,
            _(
                "A dimension of the model is no multiple of 8 (16 for FP8), and in a profile of this job matrix kernels of 16 bits and fewer"
                " took {profile_half_missed_share:.0%} of all kernel time without tensor cores."
            ),
        ),
        Says(
            _HIDDEN,
            _(
                "The hidden size {told_hidden:.0f} is no multiple of 8 (16 for FP8), and the tensor cores are active only"
                " {tensor_active_when_busy:.1%} of the busy time at {sm_active_when_busy:.0%} SM activity."
            ),
        ),
        Says(
            _HEAD,
            _(
                "The hidden size {told_hidden:.0f} over {told_heads:.0f} heads is no multiple of 8 (16 for FP8), and the tensor cores are"
                " active only {tensor_active_when_busy:.1%} of the busy time at {sm_active_when_busy:.0%} SM activity."
            ),
        ),
        Says(
            _VOCABULARY,
            _(
                "The vocabulary of {told_vocab:.0f} is no multiple of 8 (16 for FP8), and the tensor cores are active only"
                " {tensor_active_when_busy:.1%} of the busy time at {sm_active_when_busy:.0%} SM activity."
            ),
        ),
    ),
    evidence=(
        Show("tensor_active_when_busy", "ratio", "<", "tensor_active_when_busy_opens"),
        Show("sm_active_when_busy", "ratio", ">=", "sm_active_when_busy_opens"),
        Show("dram_active_when_busy", "ratio", "<", "dram_active_when_busy_opens"),
        Show("told_hidden", "number"),
        Show("told_heads", "number"),
        Show("told_vocab", "number"),
        Show("micro_batch", "number"),
        Show("told_seq", "number"),
        Show("profile_half_missed_share", "ratio", ">=", "profile_half_missed_share_opens"),
    ),
    change=(
        Step("flag", "--make-vocab-size-divisible-by 128  # Megatron-LM", when=_VOCABULARY & (c.launcher == "megatron")),
        Step(
            "diff",
            "+ model.resize_token_embeddings({told_vocab:.0f}, pad_to_multiple_of=128)  # Hugging Face; the tokenizer stays as it is",
            when=_VOCABULARY & (c.launcher != "megatron").fill_null(True),
        ),
        Step("diff", "- hidden = {told_hidden:.0f}\n+ hidden = -(-{told_hidden:.0f} // 128) * 128", when=_HIDDEN),
        Step(
            "diff",
            "- heads = {told_heads:.0f}\n+ heads = {told_hidden:.0f} // 128  # heads of 64 or 128 have the fastest kernels",
            when=_HEAD & ~_HIDDEN,
        ),
        Step(
            "diff",
            "- batch = collate(samples)\n+ batch = collate(samples, pad_to_multiple_of=8)  # now {told_seq:.0f} tokens a sequence",
            when=_TOKENS,
        ),
    ),
    gain=Expect(1.02, 1.25, _("An estimate: it depends on which of the matrix products has the odd dimension.")),
    risk=_("Weights change their shape: an old checkpoint must be padded, and an export trimmed."),
    rollback=_("Set the former dimension and its checkpoint."),
    verify=_("Tensor activity rises by a fifth or more and a step takes 3 % less time."),
    sources=(
        "docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication",
        "huggingface.co/docs/transformers: resize_token_embeddings",
    ),
)
