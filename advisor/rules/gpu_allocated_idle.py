"""A job holds GPUs and none of them computes.

Where a scheduler gave it the GPUs, that alone says it holds them: a job that never started a process there, or whose program has ended and
whose shell has not, is found too, after the time that loading data and weights may take.
"""

import polars as pl

from advisor.rule import Need, Rule, Says, Show, Step, Threshold, param
from advisor.started import KUBERNETES, NO_SCHEDULER, SLURM
from advisor.text import _

c = pl.col
_UNUSED = ((c.allocated_gpus >= 1) & (c.allocated_idle_s >= param("unused_opens_s"))).fill_null(False)
"""No process of the job is on any of its GPUs, and has not been for long."""

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
        Threshold("unused_opens_s", 1800.0, "seconds", 60.0, 86_400.0),
    ),
    opens=(c.working_gpus == 0)
    & (c.busy < param("busy_opens"))
    & (c.window_s >= 5)
    & (((c.held_gpus >= 1) & (c.share_idle >= param("share_idle_opens"))) | _UNUSED),
    clears=(c.working_gpus >= 1) | (c.busy >= param("busy_clears")),
    unless=(c.free & c.allocated_gpus.is_null()) | c.note_declared_idle.fill_null(False),
    yields_to=("gpu-memory-held-idle",),
    title=_("Allocated GPUs do no work"),
    summary=_("GPUs that the job holds: {held_gpus:.0f}. In {window_s:.0f} s the compute engine worked {busy:.1%} of the time."),
    cases=(
        Says(
            _UNUSED,
            _(
                "GPUs that the scheduler gave the job: {allocated_gpus:.0f}. No process of it has used one for {allocated_idle_minutes:.0f} minutes."
            ),
        ),
    ),
    evidence=(
        Show("allocated_idle_s", "seconds", ">=", "unused_opens_s"),
        Show("allocated_gpus", "gpus"),
        Show("busy", "ratio", "<", "busy_opens"),
        Show("working_gpus", "gpus", "=", 0.0),
        Show("held_gpus", "gpus"),
        Show("main_cores", "cores"),
        Show("usual_idle_power_w", "watts"),
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
