"""The host is nearly out of memory: reclaim, swapping and the OOM killer are next."""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.started import KUBERNETES
from advisor.text import _

c = pl.col

RULE = Rule(
    id="host-memory-pressure",
    scope="node",
    severity="warn",
    bottleneck=None,
    group="capacity",
    needs=(Need(("host_mem_share",)),),
    thresholds=(
        Threshold("host_mem_share_opens", 0.95, "ratio", 0.0, 1.0),
        Threshold("host_mem_share_clears", 0.9, "ratio", 0.0, 1.0),
    ),
    opens=c.host_mem_share >= param("host_mem_share_opens"),  # total less available, so the page cache does not count
    clears=c.host_mem_share < param("host_mem_share_clears"),
    title=_("Host memory is short"),
    summary=_("{host_mem_share:.1%} of the host's memory is in use, page cache not counted."),
    evidence=(
        Show("host_mem_share", "ratio", ">=", "host_mem_share_opens"),
        Show("host_mem_used_bytes", "bytes"),
        Show("host_mem_total_bytes", "bytes"),
        Show("children", "processes"),
    ),
    change=(
        Step(
            "diff",
            "- loader = DataLoader(ds, num_workers=W, prefetch_factor=4)\n+ loader = DataLoader(ds, num_workers=W // 2, prefetch_factor=2)",
        ),
        Step(
            "diff",
            "# a list of Python objects is copied into every worker as it is read\n- self.items = list(rows)\n+ self.items = numpy.array(rows)  # or Arrow, memory-mapped",
        ),
        Step("config", "#SBATCH --mem=0  # all of the node's memory; less where its jobs need less", when=~KUBERNETES),
        Step("command", "kubectl top pods -A --sort-by=memory  # then limits.memory of those that grow", when=KUBERNETES),
        Step("command", "ps -eo pid,user,rss,comm --sort=-rss | head -n 15  # who holds it"),
    ),
    recovers=0.0,
    risk=_("Fewer workers may starve the GPU: watch the data share."),
    rollback=_("Undo the change."),
    verify=_("Less than {host_mem_share_clears:.0%} of the host's memory is in use for a week and nothing is swapped in."),
    sources=("docs.kernel.org: /proc/meminfo MemAvailable", "docs.pytorch.org/docs/stable/data.html"),
)
