"""A node with too few cores for its GPUs: they wait for input though nobody else is on it.

Cores are short by arithmetic (PL-10) below four for each GPU; that it matters, the day's saturation beside the waiting shows.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.started import KUBERNETES, SLURM
from advisor.text import _

c = pl.col

_PER_GPU = c.cores / c.node_gpus

RULE = Rule(
    id="node-cpu-undersized",
    scope="node",
    severity="advice",
    bottleneck="data",
    group="capacity",
    needs=(
        Need(("cores", "node_gpus", "day_cpu_saturated_share", "share_data")),
        Need(
            ("cores", "node_gpus", "cpu_busy_share", "share_data"),
            "low",
            opens=(param("cores_per_gpu_opens") > _PER_GPU)
            & (c.cpu_busy_share >= 0.9)
            & (c.share_data >= param("share_data_opens")),
        ),
    ),
    thresholds=(
        Threshold("cores_per_gpu_opens", 4.0, "cores", 0.5, 64.0),
        Threshold("saturated_share_opens", 0.30, "ratio", 0.01, 1.0),
        Threshold("saturated_share_clears", 0.10, "ratio", 0.0, 1.0),
        Threshold("share_data_opens", 0.10, "ratio", 0.01, 1.0),
    ),
    opens=(_PER_GPU < 6)
    & (c.day_cpu_saturated_share >= param("saturated_share_opens"))
    & (c.share_data >= param("share_data_opens")),
    clears=(c.day_cpu_saturated_share < param("saturated_share_clears")) | (c.share_data < 0.5 * param("share_data_opens")),
    unless=c.other_cores >= 0.3 * c.cores,
    title=_("The node has too few cores for its GPUs"),
    summary=_(
        "{cores:.0f} cores serve {node_gpus:.0f} GPUs; they were used up {day_cpu_saturated_share:.0%} of the last week, and GPUs wait for input {share_data:.0%} of the time."
    ),
    cases=(
        Says(
            c.day_cpu_saturated_share.is_null(),
            _(
                "{cores:.0f} cores serve {node_gpus:.0f} GPUs; {cpu_busy_share:.0%} of them are busy, and GPUs wait for input {share_data:.0%} of the time."
            ),
        ),
    ),
    evidence=(
        Show("cores", "cores"),
        Show("node_gpus", "gpus"),
        Show("day_cpu_saturated_share", "ratio", ">=", "saturated_share_opens"),
        Show("share_data", "ratio", ">=", "share_data_opens"),
        Show("psi_cpu_some_pct", "percent"),
        Show("other_cores", "cores"),
    ),
    change=(
        Step(
            "diff",
            "- # transforms on the processor\n+ # transforms on the GPU where its memory has room (DALI, torchvision.transforms.v2), or done once before the training",
        ),
        Step("config", "#SBATCH --constraint=cpurich  # for jobs that prepare much input", when=~KUBERNETES),
        Step("command", "kubectl label node {node_name} cpu-rich=false", when=~SLURM),
    ),
    gain=Expect(
        1.0,
        pl.min_horizontal(3.0, 1 / (1 - c.share_data).clip(0.05)),
        _("The upper value is 1 / (1 - data share), 3 at most: nothing of the input is waited for any more."),
    ),
    risk=_("Nodes with more cores cost more."),
    rollback=_("Take the label or the constraint away."),
    verify=_(
        "Cores are used up less than {saturated_share_clears:.0%} of the time and GPUs wait for input less than 5 % for seven days."
    ),
    sources=("planner node-size",),
)
