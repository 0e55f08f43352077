"""Every rank keeps all of the optimizer's states, and little is left for activations.

With Adam the states of P trained parameters take 16*P bytes on each GPU; sharded over the ranks that compute the same model most of it is
gone, and the first two stages move no more bytes than DDP does. It matters where the states take 0.45 of the card and the peak 0.85.
Adapters are counted by what they train.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="optimizer-state-unsharded",
    scope="job",
    severity="advice",
    bottleneck=None,
    group="capacity",
    needs=(Need(("sharding", "static_share", "alloc_peak_share", "data_parallel")),),
    thresholds=(
        Threshold("static_share_opens", 0.45, "ratio", 0.0, 2.0),
        Threshold("static_share_clears", 0.4, "ratio", 0.0, 2.0),
        Threshold("alloc_peak_share_opens", 0.85, "ratio", 0.0, 1.0),
        Threshold("alloc_peak_share_clears", 0.75, "ratio", 0.0, 1.0),
    ),
    opens=c.sharding.is_in(("none", "ddp"))
    & (c.data_parallel >= 2)
    & (c.static_share >= param("static_share_opens"))
    & (c.alloc_peak_share >= param("alloc_peak_share_opens")),
    clears=~c.sharding.is_in(("none", "ddp"))
    | (c.data_parallel < 2)
    | (c.static_share < param("static_share_clears"))
    | (c.alloc_peak_share < param("alloc_peak_share_clears")),
    unless=(c.told_trainable < 0.5 * c.params) | (c.told_kind != "train"),
    yields_to=("gpu-oom-recurring",),
    title=_("Every GPU keeps all of the optimizer's states"),
    summary=_(
        "Weights, gradients and optimizer take {static_gib:.0f} GiB, {static_share:.0%} of each card, on each of {data_parallel:.0f} ranks"
        " alike; sharded they take {zero1_gib:.1f} GiB (ZeRO-1), {zero2_gib:.1f} (ZeRO-2) or {zero3_gib:.1f} (ZeRO-3, FSDP)."
    ),
    evidence=(
        Show("static_share", "ratio", ">=", "static_share_opens"),
        Show("alloc_peak_share", "ratio", ">=", "alloc_peak_share_opens"),
        Show("static_bytes", "bytes"),
        Show("zero1_bytes", "bytes"),
        Show("zero2_bytes", "bytes"),
        Show("zero3_bytes", "bytes"),
        Show("mem_total_bytes", "bytes"),
        Show("data_parallel", "number", ">=", 2.0),
        Show("params", "number"),
    ),
    change=(
        Step(
            "diff",
            "- opt = torch.optim.AdamW(model.parameters(), lr=lr)\n"
            "+ opt = torch.distributed.optim.ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=lr)"
            "  # {zero1_gib:.1f} GiB a GPU",
            when=c.launcher.is_null() | c.launcher.is_in(("torchrun", "accelerate")),
        ),
        Step(
            "config",
            '{{"zero_optimization": {{"stage": 2, "overlap_comm": true}}}}  # DeepSpeed: {zero2_gib:.1f} GiB a GPU',
            when=c.launcher == "deepspeed",
        ),
        Step("flag", "--use-distributed-optimizer  # Megatron-LM: {zero1_gib:.1f} GiB a GPU", when=c.launcher == "megatron"),
        Step(
            "diff",
            "- model = DistributedDataParallel(model)\n"
            "+ for block in model.layers: fully_shard(block, reshard_after_forward=False)\n"
            "+ fully_shard(model)  # instead of the optimizer above: {zero2_gib:.1f} GiB a GPU; with reshard_after_forward=True {zero3_gib:.1f}, and more traffic",
            when=c.launcher.is_null() | c.launcher.is_in(("torchrun", "accelerate")),
        ),
    ),
    risk=_(
        "Checkpoints change their format (use torch.distributed.checkpoint). Stages 1 and 2 cost up to 5 % of the time, stage 3 5 to 50 % by"
        " the speed of the links."
    ),
    rollback=_("Put the former wrapper back and load a checkpoint in its format."),
    verify=_(
        "The states take what is foretold within a tenth, and samples per second fall by 10 % at most or rise with a larger micro-batch."
    ),
    sources=("arxiv.org/abs/1910.02054", "docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html"),
)
