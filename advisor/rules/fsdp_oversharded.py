"""A fully sharded model that would fit with less sharding: it gathers its parameters twice a step for nothing.

ZeRO-3 and FSDP move 3 (n-1)/n times the parameters a step, replicas and ZeRO-2 twice (n-1)/n (PL-8): a third of the traffic goes.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_talks = pl.max_horizontal(c.comm_share, c.share_communication)

RULE = Rule(
    id="fsdp-oversharded",
    scope="job",
    severity="advice",
    bottleneck="communication",
    needs=(
        Need(("sharding", "alloc_peak_share", "comm_share"), "medium"),
        Need(("sharding", "alloc_peak_share", "share_communication"), "low"),
    ),
    thresholds=(
        Threshold("alloc_peak_share_opens", 0.55, "ratio", 0.1, 0.9),
        Threshold("alloc_peak_share_clears", 0.70, "ratio", 0.1, 1.0),
        Threshold("comm_share_opens", 0.20, "ratio", 0.02, 0.9),
        Threshold("comm_share_clears", 0.12, "ratio", 0.01, 0.9),
    ),
    opens=c.sharding.is_in(["fsdp", "zero3"])
    & (c.gpus >= 2)
    & (c.alloc_peak_share < param("alloc_peak_share_opens"))
    & (_talks >= param("comm_share_opens")),
    clears=~c.sharding.is_in(["fsdp", "zero3"])
    | (c.alloc_peak_share >= param("alloc_peak_share_clears"))
    | (_talks < param("comm_share_clears")),
    yields_to=("nccl-socket-fallback", "p2p-disabled", "gpudirect-rdma-off", "rank-straggler"),
    title=_("The model is sharded more than its memory needs"),
    summary=_(
        "With {sharding} over {gpus} GPUs the highest memory is {alloc_peak_share:.0%} of the card, and communication takes"
        " {communication_share:.0%} of the time: parameters are gathered anew in each pass though there is room to keep them."
    ),
    evidence=(
        Show("alloc_peak_share", "ratio", "<", "alloc_peak_share_opens"),
        Show("comm_share", "ratio"),
        Show("communication_share", "ratio", ">=", "comm_share_opens"),
        Show("gpus", "gpus"),
        Show("nvlink_bytes_per_s", "bytes_per_second"),
    ),
    change=(
        Step(
            "diff",
            "- fully_shard(model)\n+ fully_shard(model, reshard_after_forward=False)  # as ZeRO-2: parameters stay",
            when=c.sharding == "fsdp",
        ),
        Step(
            "diff",
            '+ mesh = init_device_mesh("cuda", ({nodes}, {ranks_on_node}), mesh_dim_names=("replicate", "shard"))\n+ fully_shard(model, mesh=mesh)  # shard within a node, replicate between',
            when=(c.sharding == "fsdp") & (c.nodes >= 2),
        ),
        Step(
            "diff",
            '- "zero_optimization": {{"stage": 3}}\n+ "zero_optimization": {{"stage": 2, "overlap_comm": true}}',
            when=c.sharding == "zero3",
        ),
    ),
    gain=Expect(
        1.05,
        (1 / (1 - _talks / 3).clip(0.4)).clip(1.06, 2.0),
        _(
            "Arithmetic: a third of the bytes of each step is no longer sent; the upper value where all of that time was waited for."
        ),
    ),
    risk=_("Memory rises by the parameters and gradients that each rank now keeps; the layout of sharded checkpoints changes."),
    rollback=_("Set full sharding again."),
    verify=_("Step time down by 8 %, and the highest memory at most 92 % of the card."),
    sources=("docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html", "arxiv.org/abs/1910.02054 (ZeRO)"),
)
