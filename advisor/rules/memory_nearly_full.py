"""So little GPU memory is free that the next larger batch fails.

Share of the card in use: 0.919 in the recording of a card near its end; loaders and trainers that leave the usual 10 % stay at
or below 0.90. Serving engines take nearly all memory by design.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="memory-nearly-full",
    scope="gpu",
    severity="warn",
    bottleneck=None,
    group="capacity",
    needs=(Need(("mem_used_share",)),),
    thresholds=(
        Threshold("mem_used_share_opens", 0.91, "ratio", 0.0, 1.0),
        Threshold("mem_used_share_clears", 0.88, "ratio", 0.0, 1.0),
    ),
    opens=c.mem_used_share >= param("mem_used_share_opens"),
    clears=c.mem_used_share < param("mem_used_share_clears"),
    unless=c.serves.fill_null(False) | c.free,
    # this is what shows; those say why
    yields_to=("gpu-oom-recurring", "allocator-fragmentation", "optimizer-state-unsharded", "activation-memory-bound"),
    title=_("GPU memory is nearly full"),
    summary=_(
        "{mem_used_share:.1%} of the GPU's memory was in use at the peak: a longer sequence or a second process runs out of it."
    ),
    evidence=(
        Show("mem_used_share", "ratio", ">=", "mem_used_share_opens"),
        Show("mem_used_max_bytes", "bytes"),
        Show("mem_total_bytes", "bytes"),
        Show("processes", "processes"),
    ),
    change=(
        Step("env", "PYTORCH_ALLOC_CONF=expandable_segments:True  # torch 2.9 and newer; before: PYTORCH_CUDA_ALLOC_CONF"),
        Step(
            "diff",
            "- loader = DataLoader(ds, batch_size=B)\n+ loader = DataLoader(ds, batch_size=B // 2)  # and twice the accumulation steps",
        ),
        Step("diff", "+ y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)  # activations for time"),
        Step("command", "nvidia-smi --query-compute-apps=pid,used_memory --format=csv -i {index}"),
    ),
    recovers=0.0,
    risk=_("Activation checkpointing costs 20 to 33 % of the time; smaller batches fill the GPU less."),
    rollback=_("Undo the change."),
    verify=_("The peak stays below {mem_used_share_clears:.0%} of the card and no run ends out of memory for a day."),
    sources=("docs.pytorch.org/docs/stable/notes/cuda.html#memory-management", "recording near_oom"),
)
