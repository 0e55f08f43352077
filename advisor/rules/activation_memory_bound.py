"""Activations fill the card, so that no workable batch or sequence fits.

The planner splits the memory by what the script told of its model: half of it or more are activations, at a peak of 0.92 of the card (or an
allocation that failed), and the micro-batch is already 1 or 2. Where the logits are larger than the activations the loss is what must
change, which gpu-oom-recurring says. Where the peak exceeds the split by what plain attention holds (5*a*s*s*b*L bytes), attention
without a fused kernel is the cause, and a fused one is all that is said: it is faster as well.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_FULL_CARD = (c.alloc_peak_share >= param("alloc_peak_share_opens")) | (c.ooms_24h >= 1).fill_null(False)
_PLAIN_ATTENTION = (
    (c.attention_bytes >= 0.1 * c.mem_total_bytes) & (c.alloc_peak_bytes - c.planned_bytes >= 0.5 * c.attention_bytes)
).fill_null(False)

RULE = Rule(
    id="activation-memory-bound",
    scope="job",
    severity="advice",
    bottleneck=None,
    group="capacity",
    needs=(Need(("alloc_peak_share", "activation_share", "micro_batch")),),
    thresholds=(
        Threshold("alloc_peak_share_opens", 0.92, "ratio", 0.0, 1.0),
        Threshold("alloc_peak_share_clears", 0.85, "ratio", 0.0, 1.0),
        Threshold("activation_share_opens", 0.5, "ratio", 0.0, 1.0),
        Threshold("activation_share_clears", 0.4, "ratio", 0.0, 1.0),
    ),
    opens=_FULL_CARD & (c.activation_share >= param("activation_share_opens")) & (c.micro_batch <= 2),
    clears=((c.alloc_peak_share < param("alloc_peak_share_clears")) & (c.ooms_24h < 1).fill_null(True))
    | (c.activation_share < param("activation_share_clears"))
    | (c.micro_batch > 2),
    unless=(c.logits_bytes > c.activation_bytes) | (c.recompute == "full") | (c.told_kind != "train"),
    yields_to=("gpu-oom-recurring", "optimizer-state-unsharded"),
    title=_("Activations fill the GPU's memory"),
    summary=_(
        "By its model {activation_share:.0%} of the job's memory are activations ({activation_gib:.0f} GiB; states {static_gib:.0f} GiB) at"
        " a micro-batch of {micro_batch:.0f}, and the peak is {alloc_peak_share:.0%} of the card; with full recompute it needs"
        " {full_recompute_gib:.0f} GiB."
    ),
    cases=(
        Says(
            _PLAIN_ATTENTION,
            _(
                "The peak of {alloc_peak_gib:.0f} GiB exceeds what the model needs with fused attention, {planned_gib:.0f} GiB: plain"
                " attention holds up to {attention_gib:.0f} GiB of scores."
            ),
        ),
    ),
    evidence=(
        Show("activation_share", "ratio", ">=", "activation_share_opens"),
        Show("alloc_peak_share", "ratio"),
        Show("activation_bytes", "bytes"),
        Show("static_bytes", "bytes"),
        Show("logits_bytes", "bytes"),
        Show("attention_bytes", "bytes"),
        Show("full_recompute_bytes", "bytes"),
        Show("mem_total_bytes", "bytes"),
        Show("ooms_24h", "number"),
        Show("micro_batch", "number", "<=", 2.0),
        Show("told_seq", "number"),
    ),
    change=(
        Step(
            "diff",
            "- scores = (q @ k.transpose(-2, -1) / d**0.5).softmax(-1) @ v\n"
            "+ scores = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)",
            when=_PLAIN_ATTENTION | c.recompute.is_null() | (c.recompute == "none"),
        ),
        Step(
            "flag",
            "--recompute-granularity selective --sequence-parallel  # Megatron-LM",
            when=~_PLAIN_ATTENTION & (c.launcher == "megatron"),
        ),
        Step(
            "diff",
            "+ apply_activation_checkpointing(model, check_fn=lambda m: isinstance(m, Block))  # before fully_shard",
            when=~_PLAIN_ATTENTION & c.sharding.is_in(("fsdp", "hsdp")),
        ),
        Step(
            "diff",
            "- x = block(x)\n+ x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
            when=~_PLAIN_ATTENTION
            & (c.launcher != "megatron").fill_null(True)
            & ~c.sharding.is_in(("fsdp", "hsdp")).fill_null(False),
        ),
        Step(
            "diff",
            '+ model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{"use_reentrant": False}})  # Hugging Face',
            when=~_PLAIN_ATTENTION & (c.launcher != "megatron").fill_null(True),
        ),
    ),
    risk=_(
        "Full recompute costs 20 to 33 % of the time, selective about 5 %; layers that draw random numbers need preserve_rng_state."
    ),
    rollback=_("Remove the call or the flag."),
    verify=_("The peak falls by a quarter, and the job runs at twice the micro-batch with steps at most 35 % longer."),
    sources=("arxiv.org/abs/2205.05198", "docs.pytorch.org/docs/stable/checkpoint.html"),
)
