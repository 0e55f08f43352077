"""The job runs out of GPU memory again and again.

One failed allocation is how a search for the batch size ends; two in a day are a job that does not fit. What to do first depends on what
holds the memory, which the planner tells where the script said its model: states that fill the card leave no batch that fits, logits
larger than the activations need another loss, unusable fragments another allocator setting. A scheduler that read "CUDA out of memory" in
the log of a job that keeps restarting is as good as the allocator's count. Another program on the card, or memory that grows, comes first.
"""

import polars as pl

from advisor.memory_split import FULL
from advisor.planners.training_memory import USABLE
from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_STATES = (c.static_share >= USABLE).fill_null(False)
_FRAGMENTS = (c.fragmented_share >= 0.15).fill_null(False)
_REPLICATED = (c.sharding.is_in(("none", "ddp")) | c.sharding.is_null()) & (c.gpus >= 2)
_LOGGED = c.note_log_error == "cuda_oom"
_RECOMPUTED = (c.recompute == "full").fill_null(False)

RULE = Rule(
    id="gpu-oom-recurring",
    scope="job",
    severity="critical",
    bottleneck=None,
    group="capacity",
    needs=(
        Need(("ooms_24h",)),
        Need(
            ("note_log_error", "restarts_2h"),
            "medium",
            opens=_LOGGED & (c.restarts_2h >= 1),
            clears=~_LOGGED | (c.restarts_2h == 0),
        ),
    ),
    thresholds=(
        Threshold("ooms_opens", 2.0, "number", 1.0, 1000.0),
        Threshold("ooms_clears", 1.0, "number", 0.0, 1000.0),
    ),
    opens=c.ooms_24h >= param("ooms_opens"),
    clears=c.ooms_24h < param("ooms_clears"),
    unless=c.tenants >= 2,
    yields_to=("gpu-co-tenant-contention", "gpu-memory-held-idle", "gpu-memory-leak"),
    title=_("The job runs out of GPU memory again and again"),
    summary=_("The job ran out of GPU memory {ooms_24h:.0f} times in 24 hours."),
    cases=(
        Says(
            c.ooms_24h.is_null(),
            _("The job's log ends with CUDA out of memory, and it was restarted {restarts_2h:.0f} times in two hours."),
        ),
        Says(
            _STATES,
            _(
                "The job ran out of GPU memory {ooms_24h:.0f} times in 24 hours: weights, gradients and optimizer alone take"
                " {static_gib:.0f} GiB of the card's {mem_total_gib:.0f} GiB, so no batch fits."
            ),
        ),
        Says(
            c.planned_bytes.is_not_null(),
            _(
                "The job ran out of GPU memory {ooms_24h:.0f} times in 24 hours. By its model it needs {planned_gib:.0f} GiB of"
                " {mem_total_gib:.0f} GiB: {static_gib:.0f} GiB of states, {activation_gib:.0f} GiB of activations."
            ),
        ),
    ),
    evidence=(
        Show("ooms_24h", "number", ">=", "ooms_opens"),
        Show("restarts_2h", "number"),
        Show("alloc_peak_bytes", "bytes"),
        Show("reserved_peak_bytes", "bytes"),
        Show("mem_total_bytes", "bytes"),
        Show("static_bytes", "bytes"),
        Show("activation_bytes", "bytes"),
        Show("logits_bytes", "bytes"),
        Show("micro_batch", "number"),
        Show("told_seq", "number"),
        Show("processes", "processes"),
    ),
    change=(
        Step(
            "env",
            "PYTORCH_ALLOC_CONF=expandable_segments:True  # first: a part of the memory is fragments",
            when=_FRAGMENTS & (c.torch_release >= 209),
        ),
        Step(
            "env",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True  # first: a part of the memory is fragments",
            when=_FRAGMENTS & (c.torch_release < 209).fill_null(True),
        ),
        Step(
            "diff",
            "- loss = F.cross_entropy(model(x), y)\n"
            "+ loss = LigerFusedLinearCrossEntropyLoss()(head.weight, hidden, y)  # never holds {logits_gib:.1f} GiB of logits",
            when=c.logits_bytes >= c.activation_bytes,
        ),
        Step(
            "diff",
            "- micro_batch = {micro_batch:.0f}\n+ micro_batch = {micro_batch:.0f} // 2; accumulation *= 2  # the same global batch",
            when=~_STATES & (c.micro_batch >= 2),
        ),
        Step(
            "diff",
            "- loader = DataLoader(ds, batch_size=B)\n+ loader = DataLoader(ds, batch_size=B // 2)  # and twice the accumulation steps",
            when=~_STATES & c.micro_batch.is_null(),
        ),
        Step(
            "diff",
            '- loss = model(x)\n+ with torch.autocast("cuda", dtype=torch.bfloat16):\n+     loss = model(x)',
            when=(c.dtype.is_in(FULL) | c.dtype.is_null()) & (c.sm >= 80).fill_null(True),
        ),
        Step("env", "PYTORCH_ALLOC_CONF=expandable_segments:True", when=~_FRAGMENTS & (c.torch_release >= 209)),
        Step("env", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", when=~_FRAGMENTS & (c.torch_release < 209)),
        Step(
            "env",
            "PYTORCH_ALLOC_CONF=expandable_segments:True  # torch 2.9 and newer; before: PYTORCH_CUDA_ALLOC_CONF",
            when=~_FRAGMENTS & c.torch_release.is_null(),
        ),
        Step(
            "diff",
            "+ y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)  # leaves {full_recompute_gib:.0f} GiB in all, by the model",
            when=~_STATES & ~_RECOMPUTED,
        ),
        Step(
            "diff",
            "+ y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)  # activations for time",
            when=~_STATES & ~_RECOMPUTED & c.full_recompute_bytes.is_null(),
        ),
        Step(
            "diff",
            "- model = DistributedDataParallel(model)\n"
            "+ for block in model.layers: fully_shard(block)\n"
            "+ fully_shard(model)  # states {zero3_gib:.1f} GiB a GPU instead of {unsharded_gib:.0f}",
            when=_REPLICATED,
        ),
        Step(
            "diff",
            "- model = DistributedDataParallel(model)\n+ for block in model.layers: fully_shard(block)\n+ fully_shard(model)",
            when=_REPLICATED & c.zero3_bytes.is_null(),
        ),
        Step(
            "diff",
            "- opt = torch.optim.AdamW(params)\n+ opt = bitsandbytes.optim.AdamW8bit(params)  # states {lean_optimizer_gib:.0f} GiB instead of {unsharded_gib:.0f}",
            when=_STATES,
        ),
        Step(
            "config",
            "# last: adapters (LoRA) instead of all weights, or states in host memory (5 to 14 times slower)",
            when=_STATES,
        ),
    ),
    risk=_(
        "A smaller batch with more accumulation changes nothing but speed; recomputing activations costs 20 to 33 % of the time."
        " torch.cuda.empty_cache() does not help a process that is itself out of memory."
    ),
    rollback=_("Undo the change; take one at a time."),
    verify=_("No run ends out of memory for a day or three runs in a row, and the reserved peak stays below 0.92 of the card."),
    sources=(
        "docs.pytorch.org/docs/stable/notes/cuda.html#memory-management",
        "arxiv.org/abs/1910.02054",
        "arxiv.org/abs/2205.05198",
    ),
)
