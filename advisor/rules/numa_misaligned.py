"""A rank runs on the processor that is away from its GPU.

Its launches, copies and pinned buffers cross the link between the sockets. Told from where its main thread last ran, each second; a rank
that uses little CPU does not matter, and a machine with one NUMA node cannot be wrong.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="numa-misaligned",
    scope="job",
    severity="advice",
    bottleneck=None,
    needs=(Need(("numa_local_share", "numa_nodes", "main_cores")),),
    thresholds=(
        Threshold("numa_local_share_opens", 0.50, "ratio", 0.0, 1.0),
        Threshold("numa_local_share_clears", 0.80, "ratio", 0.0, 1.0),
        Threshold("main_cores_opens", 0.10, "cores", 0.0, 8.0),
    ),
    opens=(c.numa_nodes >= 2)
    & (c.numa_local_share < param("numa_local_share_opens"))
    & (c.main_cores >= param("main_cores_opens")),
    clears=c.numa_local_share >= param("numa_local_share_clears"),
    title=_("A rank runs on the processor away from its GPU"),
    summary=_(
        "A rank's main thread ran on the NUMA node of its GPU {numa_local_share:.0%} of the time; the node has {numa_nodes:.0f} of them."
    ),
    evidence=(
        Show("numa_local_share", "ratio", "<", "numa_local_share_opens"),
        Show("numa_nodes", "numa_nodes", ">=", 2.0),
        Show("main_cores", "cores", ">=", "main_cores_opens"),
        Show("pcie_rx_bytes_per_s", "bytes_per_second"),
    ),
    change=(
        Step(
            "command",
            "torchrun --numa-binding=node --nproc-per-node={ranks_on_node} train.py",
            when=c.launcher.is_null() | (c.launcher == "torchrun"),
        ),
        Step(
            "command",
            "numactl --cpunodebind=N --membind=N python train.py  # N: of the GPU, from nvidia-smi topo -m",
            when=c.launcher.ne_missing("torchrun"),
        ),
        Step("config", "#SBATCH --gpu-bind=closest --cpu-bind=cores", when=c.scheduler == "slurm"),
        Step("config", "cpuManagerPolicy: static\ntopologyManagerPolicy: single-numa-node", when=c.scheduler == "kubernetes"),
    ),
    gain=Expect(
        1.0,
        1.15,
        _(
            "Two to fifteen per cent where input, copies or small messages are waited for; next to nothing where the GPU computes all the time."
        ),
    ),
    risk=_("A mask that is too narrow starves loader processes: keep as many cores in it as ranks and workers need."),
    rollback=_("Take the binding out."),
    verify=_("The main thread runs on its GPU's NUMA node 90 % of the time, and step time is down by 2 %."),
    sources=(
        "docs.pytorch.org/docs/stable/elastic/run.html: --numa-binding",
        "kubernetes.io/docs/tasks/administer-cluster/topology-manager/",
    ),
)
