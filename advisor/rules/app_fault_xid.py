"""Faults that programs cause, on one GPU, by different programs: then it is the GPU.

One program that faults on several GPUs has a fault of its own; several programs that fault on one GPU point at the hardware. The events
themselves open a finding at once (advisor/xid_catalog.py); this rule looks back over thirty days.
"""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.started import drain
from advisor.text import _

c = pl.col

RULE = Rule(
    id="app-fault-xid",
    scope="gpu",
    severity="warn",
    bottleneck=None,
    group="capacity",
    needs=(Need(("app_xids_30d", "app_xid_jobs_30d")),),
    thresholds=(Threshold("jobs_opens", 2.0, "jobs", 2.0, 100.0),),
    opens=(c.app_xid_jobs_30d >= param("jobs_opens")) & (c.app_xids_30d >= 2),
    clears=c.app_xid_jobs_30d < param("jobs_opens"),
    title=_("Different programs fault on this GPU"),
    summary=_(
        "{app_xid_jobs_30d:.0f} different programs made this GPU fault {app_xids_30d:.0f} times in thirty days: that points at the GPU, not at their code."
    ),
    evidence=(Show("app_xid_jobs_30d", "jobs", ">=", "jobs_opens"), Show("app_xids_30d", "events"), Show("app_xid_code", "code")),
    change=(
        Step("command", "dcgmi diag -r 3"),
        *drain("several programs fault on one GPU"),
        Step("command", "compute-sanitizer --tool memcheck python train.py  # where one program alone faults, on any GPU"),
    ),
    recovers=0.0,
    risk=_("The GPU is out of use while it is diagnosed; the sanitizer is 10 to 100 times slower."),
    rollback=_("Nothing to roll back: put the node back into service."),
    verify=_("A clean diagnosis, and seven days without a repeat."),
    sources=("https://docs.nvidia.com/deploy/xid-errors/",),
)
