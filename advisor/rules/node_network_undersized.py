"""A job of several nodes fills the network between them: no tuning makes the line wider."""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Terms, Threshold, param
from advisor.started import DEEPSPEED, MEGATRON, OWN_LOOP
from advisor.text import _

c = pl.col

_FULL = pl.max_horizontal(c.ib_share, c.net_share)

_DDP = OWN_LOOP & (c.sharding.is_null() | (c.sharding == "ddp"))

RULE = Rule(
    id="node-network-undersized",
    scope="job",
    severity="warn",
    bottleneck="communication",
    needs=(Need(("nodes", "net_share", "share_communication")), Need(("nodes", "ib_share", "share_communication"))),
    thresholds=(
        Threshold("link_share_opens", 0.80, "ratio", 0.05, 1.0),
        Threshold("link_share_clears", 0.60, "ratio", 0.05, 1.0),
        Threshold("communication_opens", 0.20, "ratio", 0.01, 1.0),
    ),
    opens=(c.nodes >= 2) & (param("link_share_opens") <= _FULL) & (c.share_communication >= param("communication_opens")),
    clears=(c.nodes < 2) | (param("link_share_clears") > _FULL),
    yields_to=("nccl-socket-fallback", "ib-port-errors-or-congestion", "gpudirect-rdma-off"),
    title=_("The network between the nodes is full"),
    summary=_(
        "The job's {nodes} nodes use {link_share:.0%} of the line between them, and communication takes {share_communication:.0%} of the time."
    ),
    evidence=(
        Show("link_share", "ratio", ">=", "link_share_opens"),
        Show("share_communication", "ratio", ">=", "communication_opens"),
        Show("net_bytes_per_s", "bytes_per_second"),
        Show("ib_bytes_per_s", "bytes_per_second"),
        Show("nodes", "nodes", ">=", 2.0),
    ),
    change=(
        Step(
            "diff",
            "- loss.backward()\n+ with model.no_sync():  # all micro-batches of a step but the last\n+     loss.backward()",
            when=OWN_LOOP,
        ),
        Step(
            "flag", "--overlap-grad-reduce --overlap-param-gather  # Megatron-LM, with --use-distributed-optimizer", when=MEGATRON
        ),
        Step(
            "config",
            '{{"zero_optimization": {{"overlap_comm": true}}, "gradient_accumulation_steps": 8}}  # DeepSpeed',
            when=DEEPSPEED,
        ),
        Step(
            "diff",
            "+ model.register_comm_hook(None, default_hooks.bf16_compress_hook)  # half the bytes of FP32 gradients",
            when=_DDP,
        ),
        Step(
            "diff",
            '+ mesh = init_device_mesh("cuda", ({nodes}, {ranks_on_node}), mesh_dim_names=("replicate", "shard"))  # gather within a node',
            when=c.sharding.is_in(["fsdp", "zero3"]),
        ),
        Step("config", "#SBATCH --nodes=1 --gpus-per-node={ranks_on_node}  # and accumulate", when=c.scheduler == "slurm"),
        Step(
            "command",
            "fettle plan collectives --help  # seconds of a step at that line rate",
        ),
    ),
    gain=Expect(
        1.1,
        (1 / (1 - c.share_communication).clip(0.2)).clip(1.15, 4.0),
        _(
            "The upper value is 1 / (1 - share of communication); 14 GB of gradients between two nodes take 1.1 s at 100 Gb/s and 0.28 s at 400."
        ),
    ),
    risk=_("Gradients in BF16 add noise; on one node a job that computes takes longer."),
    rollback=_("Undo the one change that was made."),
    verify=_("Communication below {communication_opens:.0%} of the time and samples per second of each GPU up by 20 %."),
    terms=(
        Terms(
            ~_DDP.fill_null(False),
            _("Gradients that are gathered first take memory; on one node a job that computes takes longer."),
            _("Undo the one change that was made."),
            _("Communication below {communication_opens:.0%} of the time and samples per second of each GPU up by 20 %."),
        ),
    ),
    sources=("github.com/NVIDIA/nccl-tests: PERFORMANCE", "planner collectives"),
)
