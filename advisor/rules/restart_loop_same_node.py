"""The same node keeps ending jobs.

Different programs that end there by errors of its GPUs, or one that ends there again and again: what follows the job is the job's own
fault, what stays with the node is the node's.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.started import KUBERNETES, SLURM
from advisor.text import _

c = pl.col

RULE = Rule(
    id="restart-loop-same-node",
    scope="node",
    severity="critical",
    bottleneck=None,
    group="capacity",
    needs=(
        Need(("abnormal_ends_7d", "abnormal_end_jobs_7d")),
        Need(("abnormal_ends_7d",), "medium", opens=c.abnormal_ends_7d >= param("ends_of_one_opens")),
    ),
    thresholds=(
        Threshold("ends_opens", 2.0, "events", 1.0, 100.0),
        Threshold("ends_of_one_opens", 3.0, "events", 2.0, 100.0),
        Threshold("jobs_opens", 2.0, "jobs", 1.0, 100.0),
    ),
    opens=((c.abnormal_ends_7d >= param("ends_opens")) & (c.abnormal_end_jobs_7d >= param("jobs_opens")))
    | (c.abnormal_ends_7d >= param("ends_of_one_opens")),
    clears=c.abnormal_ends_7d < param("ends_opens"),
    unless=c.note_maintenance.fill_null(False),
    title=_("The same node keeps ending jobs"),
    summary=_(
        "{abnormal_ends_7d:.0f} jobs ended abnormally on this node within seven days, {abnormal_end_jobs_7d:.0f} different ones; {xids_7d:.0f} XID errors were logged."
    ),
    cases=(
        Says(
            c.abnormal_end_jobs_7d.is_null() | c.xids_7d.is_null(),
            _("{abnormal_ends_7d:.0f} jobs ended abnormally on this node within seven days."),
        ),
    ),
    evidence=(
        Show("abnormal_ends_7d", "events", ">=", "ends_opens"),
        Show("abnormal_end_jobs_7d", "jobs", ">=", "jobs_opens"),
        Show("xids_7d", "events"),
    ),
    change=(
        Step("command", 'scontrol update nodename={node_name} state=drain reason="repeat failures"', when=~KUBERNETES),
        Step("command", "kubectl taint node {node_name} gpu-health=suspect:NoSchedule", when=~SLURM),
        Step("command", "dcgmi diag -r 3 && fettle bench  # back into service after both and a day's soak"),
    ),
    recovers=0.0,
    risk=_("The node's capacity is lost while it is drained."),
    rollback=_("Put the node back into service, and remove the taint."),
    verify=_("No abnormal end with the same GPUs for thirty days after its return."),
    sources=(
        _("arxiv.org/abs/2407.21783 (more than half of a large training's interruptions come from GPUs)"),
        "https://docs.nvidia.com/deploy/xid-errors/",
    ),
)
