"""A CPU quota stops the job's processes for parts of each period.

The kernel counts the periods in which a control group ran out of its quota. A main thread that is stopped launches nothing, a loader that is
stopped prepares nothing, however idle the node's other cores are.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="cgroup-cpu-throttled",
    scope="job",
    severity="warn",
    bottleneck="data",
    group="capacity",
    needs=(Need(("cpu_throttled_share", "busy")),),
    thresholds=(
        Threshold("throttled_share_opens", 0.10, "ratio", 0.005, 1.0),
        Threshold("throttled_share_clears", 0.01, "ratio", 0.0, 1.0),
        Threshold("sm_active_opens", 0.85, "ratio", 0.1, 1.0),
    ),
    opens=(c.cpu_throttled_share >= param("throttled_share_opens")) & (c.sm_active.fill_null(0) < param("sm_active_opens")),
    clears=c.cpu_throttled_share < param("throttled_share_clears"),
    title=_("A CPU quota stops the job's processes"),
    summary=_(
        "In {cpu_throttled_share:.0%} of the scheduler's periods the job was stopped because its quota of {cpu_quota_cores:.1f} cores was used up; {free_cores:.0f} of the node's {cores:.0f} cores were free."
    ),
    cases=(
        Says(
            c.cpu_quota_cores.is_null(),
            _("In {cpu_throttled_share:.0%} of the scheduler's periods the job was stopped because its CPU quota was used up."),
        ),
    ),
    evidence=(
        Show("cpu_throttled_share", "ratio", ">=", "throttled_share_opens"),
        Show("cpu_quota_cores", "cores"),
        Show("free_cores", "cores"),
        Show("share_data", "ratio"),
        Show("sm_active", "ratio", "<", "sm_active_opens"),
    ),
    change=(
        Step(
            "config",
            'resources:\n- limits: {{cpu: ...}}\n+ requests: {{cpu: "{quota_suggested:.0f}"}}  # a request without a CPU limit',
            when=c.scheduler == "kubernetes",
        ),
        Step("config", "#SBATCH --cpus-per-task={quota_suggested:.0f}", when=c.scheduler == "slurm"),
        Step(
            "flag",
            "docker run --cpus={quota_suggested:.0f} IMAGE  # or --cpuset-cpus, or no limit",
            when=c.scheduler.is_null() | (c.scheduler == "docker"),
        ),
    ),
    gain=Expect(
        1.05,
        (1 / (1 - c.share_data).clip(0.5)).clip(1.1, 2.0),
        _("The upper value is 1 / (1 - data share): nothing of the input is waited for any more."),
    ),
    risk=_("Without a limit a job can take cores from its neighbours: requests or cpusets keep them apart."),
    rollback=_("Set the limit again."),
    verify=_("Less than {throttled_share_clears:.0%} of the periods are throttled for an hour."),
    sources=(
        "https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu",
        "https://kubernetes.io/docs/tasks/configure-pod-container/assign-cpu-resource/",
    ),
)
