"""Network cards cannot read GPU memory: every byte between nodes goes through host memory.

Neither nvidia-peermem nor DMA-BUF is there. Grace systems take the path through the CPU by design.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_talks = pl.max_horizontal(c.comm_share, c.share_communication)

RULE = Rule(
    id="gpudirect-rdma-off",
    scope="job",
    severity="warn",
    bottleneck="communication",
    needs=(Need(("rdma_ready", "nodes", "ib_ports_active", "share_communication"), "medium"),),
    thresholds=(
        Threshold("communication_opens", 0.25, "ratio", 0.02, 0.9),
        Threshold("communication_clears", 0.15, "ratio", 0.01, 0.9),
    ),
    opens=(c.nodes >= 2) & (c.ib_ports_active >= 1) & ~c.rdma_ready & (_talks >= param("communication_opens")),
    clears=c.rdma_ready | (_talks < param("communication_clears")),
    unless=c.gpu_model.str.contains("GH200|GB200|GB300"),
    yields_to=("nccl-socket-fallback", "ib-port-errors-or-congestion"),
    title=_("Network cards cannot read GPU memory"),
    summary=_(
        "Neither nvidia-peermem nor DMA-BUF is there on the job's node, so what its {nodes} nodes exchange is copied through host memory;"
        " communication takes {communication_share:.0%} of the time."
    ),
    evidence=(
        Show("communication_share", "ratio", ">=", "communication_opens"),
        Show("comm_share", "ratio"),
        Show("ib_bytes_per_s", "bytes_per_second"),
        Show("ib_rate_bytes_per_s", "bytes_per_second"),
        Show("nodes", "nodes", ">=", 2.0),
    ),
    change=(
        Step("command", "modprobe nvidia_peermem && echo nvidia_peermem > /etc/modules-load.d/nvidia-peermem.conf"),
        Step("command", "nvidia-smi topo -m  # the network card of a GPU should be PIX or PXB from it"),
        Step("env", "NCCL_DEBUG=INFO  # for one run: every channel must print GDRDMA"),
    ),
    gain=Expect(
        1.05,
        (1 / (1 - _talks / 2).clip(0.5)).clip(1.1, 2.0),
        _("Transfers between nodes are up to twice as fast; the upper value takes half of the communication's time away."),
    ),
    risk=_("A path over the CPU's root complex can be slower than the copy on some processors: measure both."),
    rollback=_("modprobe -r nvidia_peermem, and remove the file."),
    verify=_("NCCL's log shows GDRDMA on all channels, all_reduce reaches 80 % of the line rate, step time falls by 5 %."),
    sources=(
        "docs.nvidia.com/cuda/gpudirect-rdma/",
        "docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html: NCCL_NET_GDR_LEVEL",
    ),
)
