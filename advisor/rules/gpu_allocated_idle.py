"""A job holds GPUs and none of them computes."""

import polars as pl

from advisor.rule import Need, Rule, Show, Step, Threshold, param
from advisor.started import KUBERNETES, NO_SCHEDULER, SLURM
from advisor.text import _

c = pl.col

RULE = Rule(
    id="gpu-allocated-idle",
    scope="job",
    severity="warn",
    bottleneck="idle",
    needs=(Need(("busy", "held_gpus")),),
    thresholds=(
        Threshold("busy_opens", 0.005, "ratio", 0.0, 1.0),
        Threshold("busy_clears", 0.02, "ratio", 0.0, 1.0),
        Threshold("share_idle_opens", 0.9, "ratio", 0.0, 1.0),
    ),
    opens=(c.held_gpus >= 1)
    & (c.working_gpus == 0)
    & (c.busy < param("busy_opens"))
    & (c.share_idle >= param("share_idle_opens"))
    & (c.window_s >= 5),
    clears=(c.working_gpus >= 1) | (c.busy >= param("busy_clears")),
    unless=c.free,
    yields_to=("gpu-memory-held-idle",),
    title=_("Allocated GPUs do no work"),
    summary=_("GPUs that the job holds: {held_gpus:.0f}. In {window_s:.0f} s the compute engine worked {busy:.1%} of the time."),
    evidence=(
        Show("busy", "ratio", "<", "busy_opens"),
        Show("working_gpus", "gpus", "=", 0.0),
        Show("held_gpus", "gpus", ">=", 1.0),
        Show("main_cores", "cores"),
    ),
    change=(
        Step("command", "scancel {slurm_job}  # after asking its owner", when=SLURM),
        Step(
            "command",
            "kubectl get pods -A -o wide --field-selector spec.nodeName={node_name}  # whose it is; then kubectl delete pod",
            when=KUBERNETES,
        ),
        Step("command", "kill -TERM {pid}  # after asking its owner", when=NO_SCHEDULER),
        Step(
            "config",
            "# jupyter_server_config.py\nc.MappingKernelManager.cull_idle_timeout = 3600\n"
            "c.MappingKernelManager.cull_interval = 300\nc.MappingKernelManager.cull_connected = True",
        ),
    ),
    recovers=1.0,
    risk=_("State that lives only in the process's memory is lost when it ends."),
    rollback=_("Submit the job again."),
    verify=_("Idle GPU-hours of this owner fall by 80 % over a week."),
    sources=("docs.jupyter.org: MappingKernelManager culling", "slurm.schedmd.com/scancel.html"),
)
