"""A job of several nodes talks over TCP although InfiniBand or RoCE is there.

By a variable that forbids it, or as the counters show it: ports that are up and carry next to nothing beside a busy Ethernet. Clouds with a
fabric and a plugin of their own (EFA, TCPX, gIB) have no InfiniBand port, or name the plugin.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_FORBIDDEN = ((c.env_NCCL_IB_DISABLE == "1") | (c.env_NCCL_NET.str.to_lowercase() == "socket")).fill_null(False)
_TRAFFIC = (c.ib_share < param("ib_share_opens")) & (c.net_bytes_per_s >= param("net_bytes_per_s_opens"))

RULE = Rule(
    id="nccl-socket-fallback",
    scope="job",
    severity="critical",
    bottleneck="communication",
    needs=(Need(("nodes", "ib_ports_active", "ib_share", "net_bytes_per_s")),),
    thresholds=(
        Threshold("ib_share_opens", 0.01, "ratio", 0.0, 0.5),
        Threshold("ib_share_clears", 0.03, "ratio", 0.0, 0.5),
        Threshold("net_bytes_per_s_opens", 100e6, "bytes_per_second", 1e6, 1e11),
    ),
    opens=(c.nodes >= 2) & (c.ib_ports_active >= 1) & _TRAFFIC,
    clears=(c.nodes < 2) | (c.ib_share >= param("ib_share_clears")) | (c.net_bytes_per_s < 0.5 * param("net_bytes_per_s_opens")),
    unless=c.env_NCCL_NET_PLUGIN.is_in(["aws-ofi", "ofi", "fastrak", "gib"])
    | c.env_NCCL_NET.is_in(["AWS", "OFI", "FasTrak", "gIB"]),
    title=_("Several nodes talk over TCP beside an idle InfiniBand"),
    summary=_(
        "The job on {nodes} nodes sends {net_gb_per_s:.2f} GB/s over Ethernet while {ib_ports_active:.0f} InfiniBand or RoCE port(s) that"
        " are up carry {ib_share:.1%} of their rate."
    ),
    cases=(
        Says(
            _FORBIDDEN,
            _(
                "The job's environment forbids InfiniBand: its {nodes} nodes send {net_gb_per_s:.2f} GB/s over Ethernet beside"
                " {ib_ports_active:.0f} port(s) that are up."
            ),
        ),
    ),
    evidence=(
        Show("ib_share", "ratio", "<", "ib_share_opens"),
        Show("net_bytes_per_s", "bytes_per_second", ">=", "net_bytes_per_s_opens"),
        Show("ib_ports_active", "ports", ">=", 1.0),
        Show("ib_rate_bytes_per_s", "bytes_per_second"),
        Show("nodes", "nodes", ">=", 2.0),
    ),
    change=(
        Step("env", "unset NCCL_IB_DISABLE NCCL_NET", when=_FORBIDDEN),
        Step(
            "flag", "docker run --device=/dev/infiniband --cap-add=IPC_LOCK --ulimit memlock=-1 ...", when=c.scheduler == "docker"
        ),
        Step(
            "config",
            'resources: {{limits: {{rdma/hca: 1}}}}\nsecurityContext: {{capabilities: {{add: ["IPC_LOCK"]}}}}',
            when=c.scheduler == "kubernetes",
        ),
        Step(
            "config",
            "PropagateResourceLimitsExcept=MEMLOCK  # slurm.conf; and LimitMEMLOCK=infinity for slurmd",
            when=c.scheduler == "slurm",
        ),
        Step("env", "NCCL_DEBUG=INFO  # for one run: it must print NET/IB"),
    ),
    gain=Expect(
        1.2,
        (1 / (1 - c.share_communication).clip(0.2)).clip(1.3, 5.0),
        _(
            "The upper value is 1 / (1 - share of communication); collectives over 400 Gb/s InfiniBand are 2 to 20 times as fast as over 100 Gb/s TCP."
        ),
    ),
    risk=_("None beyond a restart of the job."),
    rollback=_("Set the variables again."),
    verify=_("InfiniBand carries at least 90 % of the gradients' bytes, Ethernet less than 1 %."),
    sources=("docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html: NCCL_IB_DISABLE, NCCL_NET",),
)
