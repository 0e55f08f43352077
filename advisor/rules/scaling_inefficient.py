"""More GPUs buy too little: samples a second fall short of what the same job does on fewer.

The reference is the job's own smallest run (PL-4). What starves or delays one rank explains a gap better, and is said instead.

A profile with communication that nothing hides says what the efficiency is lost to.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Terms, Threshold, param
from advisor.started import DEEPSPEED, MEGATRON, OWN_LOOP
from advisor.text import _

c = pl.col

_LEAST = (
    pl.when(c.nodes >= 2).then(param("efficiency_across_nodes_opens"))
    .when(c.has_nvlink.fill_null(False)).then(param("efficiency_with_nvlink_opens"))
    .otherwise(param("efficiency_over_pcie_opens"))
)  # fmt: skip

_DDP = OWN_LOOP & (c.sharding.is_null() | (c.sharding == "ddp"))

RULE = Rule(
    id="scaling-inefficient",
    scope="job",
    severity="warn",
    bottleneck="communication",
    needs=(Need(("scaling_efficiency", "scaling_reference_gpus")),),
    thresholds=(
        Threshold("efficiency_with_nvlink_opens", 0.85, "ratio", 0.1, 1.0),
        Threshold("efficiency_over_pcie_opens", 0.75, "ratio", 0.1, 1.0),
        Threshold("efficiency_across_nodes_opens", 0.70, "ratio", 0.1, 1.0),
        Threshold("efficiency_margin", 0.05, "ratio", 0.0, 0.5),
        Threshold("profile_exposed_comm_share_confirms", 0.10, "ratio", 0.0, 1.0),
    ),
    opens=(c.gpus > c.scaling_reference_gpus) & (c.scaling_efficiency < _LEAST),
    clears=c.scaling_efficiency >= _LEAST + param("efficiency_margin"),
    confirmed=c.profile_exposed_comm_share >= param("profile_exposed_comm_share_confirms"),
    yields_to=(
        "dataloader-too-few-workers",
        "dataloader-oversubscribed",
        "cpu-preprocessing-bound",
        "storage-throughput-bound",
        "storage-small-files",
        "rank-straggler",
        "nccl-socket-fallback",
        "p2p-disabled",
        "gpudirect-rdma-off",
        "tp-spans-slow-link",
        "pcie-link-degraded",
        "dataparallel-legacy",
    ),
    title=_("More GPUs buy too little throughput"),
    summary=_(
        "On {gpus} GPUs the job does {scaling_efficiency:.0%} of what {scaling_reference_gpus:.0f} GPU(s) did for each of them:"
        " {samples_per_s:.4g} samples a second in all."
    ),
    evidence=(
        Show("scaling_efficiency", "ratio", "<", "efficiency_with_nvlink_opens"),
        Show("scaling_reference_gpus", "gpus"),
        Show("gpus", "gpus"),
        Show("samples_per_s", "per_second"),
        Show("comm_share", "ratio"),
        Show("nvlink_share", "ratio"),
        Show("profile_exposed_comm_share", "ratio", ">=", "profile_exposed_comm_share_confirms"),
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
            '{{"zero_optimization": {{"overlap_comm": true, "contiguous_gradients": true}}}}  # DeepSpeed',
            when=DEEPSPEED,
        ),
        Step(
            "diff",
            "- DDP(model)\n+ DDP(model, bucket_cap_mb=100, gradient_as_bucket_view=True)",
            when=_DDP,
        ),
        Step(
            "diff",
            "+ model.register_comm_hook(None, default_hooks.bf16_compress_hook)  # half the bytes of FP32 gradients",
            when=_DDP,
        ),
        Step("config", "#SBATCH --gpus={scaling_reference_gpus:.0f}  # fewer GPUs a job, more jobs", when=c.scheduler == "slurm"),
    ),
    gain=Expect(
        1.03,
        (0.92 / c.scaling_efficiency).clip(1.05, 4.0),
        _("Arithmetic: from today's efficiency to 0.92, which data-parallel jobs reach within a node."),
    ),
    risk=_(
        "Gradients in BF16 add noise; no_sync keeps full gradients in memory, and static_graph=True breaks it: leave that out."
    ),
    rollback=_("Undo the one change that was made: take them one at a time."),
    verify=_("Efficiency up by 0.08 over 300 steps, and the share of communication in a step down by 30 %."),
    terms=(
        Terms(
            MEGATRON,
            _("Overlap keeps further buckets of gradients and parameters in memory."),
            _("Remove the flags."),
            _("Efficiency up by 0.08 over 300 steps, and the share of communication in a step down by 30 %."),
        ),
        Terms(
            DEEPSPEED,
            _("Overlap keeps further buckets of gradients in memory."),
            _("Remove the block."),
            _("Efficiency up by 0.08 over 300 steps, and the share of communication in a step down by 30 %."),
        ),
        Terms(
            ~_DDP.fill_null(False),
            _("no_sync keeps full gradients in memory."),
            _("Undo the one change that was made: take them one at a time."),
            _("Efficiency up by 0.08 over 300 steps, and the share of communication in a step down by 30 %."),
        ),
    ),
    sources=("github.com/NVIDIA/nccl-tests: PERFORMANCE", "docs.pytorch.org/docs/stable/notes/ddp.html", "planner scaling"),
)
