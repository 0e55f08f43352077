"""A tensor-parallel group that reaches across nodes, or over PCIe: it sends activations in every layer, twice each way.

Within an NVLink domain that hides; over a network or PCIe it is waited for. Cards of one rack-wide NVLink domain (GB200 NVL72) are no case.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_ACROSS = (c.nodes >= 2) & (c.tp > c.ranks_on_node)
_OVER_PCIE = (c.tp >= 2) & ~c.has_nvlink
_talks = pl.max_horizontal(c.comm_share, c.share_communication)

RULE = Rule(
    id="tp-spans-slow-link",
    scope="job",
    severity="warn",
    bottleneck="communication",
    needs=(Need(("tp", "nodes", "ranks_on_node", "has_nvlink", "share_communication")),),
    thresholds=(
        Threshold("communication_opens", 0.25, "ratio", 0.02, 0.9),
        Threshold("communication_clears", 0.15, "ratio", 0.01, 0.9),
    ),
    opens=(_ACROSS | _OVER_PCIE) & (_talks >= param("communication_opens")),
    clears=~(_ACROSS | _OVER_PCIE) | (_talks < param("communication_clears")),
    unless=c.gpu_model.str.contains("GB200|GB300") & (c.tp <= 72),
    yields_to=("nccl-socket-fallback", "p2p-disabled"),
    title=_("A tensor-parallel group crosses a slow link"),
    summary=_(
        "Tensors are split over {tp:.0f} GPUs on {nodes} nodes, {ranks_on_node} of them on one; exchanging them takes {communication_share:.0%} of the time."
    ),
    cases=(
        Says(
            (c.nodes < 2) & _OVER_PCIE,
            _(
                "Tensors are split over {tp:.0f} GPUs that have no NVLink between them; exchanging them takes {communication_share:.0%} of the time."
            ),
        ),
    ),
    evidence=(
        Show("tp", "gpus"),
        Show("ranks_on_node", "gpus"),
        Show("nodes", "nodes"),
        Show("communication_share", "ratio", ">=", "communication_opens"),
        Show("comm_share", "ratio"),
        Show("net_bytes_per_s", "bytes_per_second"),
        Show("ib_bytes_per_s", "bytes_per_second"),
    ),
    change=(
        Step(
            "flag",
            "--tensor-parallel-size {ranks_on_node} --pipeline-parallel-size {nodes}",
            when=c.serving_engine == "vllm",
        ),
        Step(
            "flag",
            "--tensor-model-parallel-size {ranks_on_node} --pipeline-model-parallel-size {nodes}",
            when=c.launcher == "megatron",
        ),
        Step(
            "diff",
            "- # a tensor-parallel group over all GPUs\n+ # tensor-parallel groups within a node ({ranks_on_node} GPUs); pipeline or data parallel between nodes",
        ),
        Step(
            "config",
            "#SBATCH --gpus-per-node={ranks_on_node} --ntasks-per-node={ranks_on_node} --distribution=block:block",
            when=c.scheduler == "slurm",
        ),
    ),
    gain=Expect(
        1.2,
        (1 / (1 - _talks).clip(0.25)).clip(1.25, 4.0),
        _("The upper value is 1 / (1 - share of communication): nothing of it is waited for any more."),
    ),
    risk=_("A pipeline has bubbles: give it enough micro-batches."),
    rollback=_("Set the flags back."),
    verify=_("Bytes between nodes down by 80 %, step time or time per token down by 20 %."),
    sources=("github.com/NVIDIA/Megatron-LM", "docs.vllm.ai: Parallelism and Scaling"),
)
