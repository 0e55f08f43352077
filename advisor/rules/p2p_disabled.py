"""GPUs of one node exchange data through the host although they could reach each other.

By a variable that switches peer-to-peer off, or as the traffic shows it: NVLink links that carry next to nothing beside a busy PCIe.
Judged by job, since a variable is a job's. MIG instances have no peers; a pair that never talks shows nothing.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_OFF = ((c.env_NCCL_P2P_DISABLE == "1") | (c.env_NCCL_P2P_LEVEL.str.to_uppercase() == "LOC")).fill_null(False)
_TRAFFIC = (
    c.has_nvlink
    & (c.nvlink_share < param("nvlink_share_opens"))
    & (c.pcie_share >= param("pcie_share_opens"))
    & c.ranks_talk_over_pcie
)

RULE = Rule(
    id="p2p-disabled",
    scope="job",
    severity="warn",
    bottleneck="communication",
    needs=(
        Need(("labels_known", "working_gpus"), opens=(c.working_gpus >= 2) & _OFF),
        Need(("has_nvlink", "nvlink_share", "pcie_share"), "medium"),
    ),
    thresholds=(
        Threshold("nvlink_share_opens", 0.01, "ratio", 0.0, 0.5),
        Threshold("pcie_share_opens", 0.30, "ratio", 0.02, 1.0),
        Threshold("nvlink_share_clears", 0.02, "ratio", 0.0, 0.5),
    ),
    opens=(c.working_gpus >= 2) & (_OFF | _TRAFFIC),
    clears=~_OFF & ((c.nvlink_share >= param("nvlink_share_clears")) | ~c.has_nvlink.fill_null(False)),
    unless=c.mig.fill_null(False) | c.gpu_model.str.contains("GeForce"),
    title=_("GPUs exchange data through the host"),
    summary=_(
        "{working_gpus} GPUs of the job have NVLink, and it carries {nvlink_share:.1%} of its peak while PCIe carries {pcie_share:.0%} of"
        " its own: peer-to-peer is off."
    ),
    cases=(
        Says(
            _OFF,
            _("The job's environment switches peer-to-peer off: its {working_gpus} GPUs exchange data through host memory."),
        ),
    ),
    evidence=(
        Show("working_gpus", "gpus", ">=", 2.0),
        Show("nvlink_share", "ratio", "<", "nvlink_share_opens"),
        Show("pcie_share", "ratio", ">=", "pcie_share_opens"),
        Show("share_communication", "ratio"),
    ),
    change=(
        Step("env", "unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL", when=_OFF),
        Step("command", "nvidia-smi topo -p2p r  # OK between GPUs that may reach each other", when=~_OFF),
        Step("flag", "docker run --ipc=host ...", when=c.scheduler == "docker"),
        Step("config", "iommu=pt  # kernel command line; or switch ACS off on the PCIe switches above the GPUs", when=~_OFF),
        Step("command", "all_reduce_perf -b 8 -e 4G -f 2 -g {gpus}"),
    ),
    gain=Expect(
        1.05,
        (1 / (1 - c.share_communication).clip(0.3)).clip(1.1, 2.5),
        _(
            "The upper value is 1 / (1 - share of communication); collectives alone rise by up to 2.2 times over PCIe peers, more over NVLink."
        ),
    ),
    risk=_(
        "Without ACS one device's DMA is less isolated from another's; on some boards peer-to-peer hangs, which may be why it was switched off."
    ),
    rollback=_("Set the variable again."),
    verify=_("all_reduce at 1 GiB is faster by half, NVLink carries traffic, and step time falls by 10 %."),
    sources=("docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html: NCCL_P2P_DISABLE, NCCL_P2P_LEVEL",),
)
