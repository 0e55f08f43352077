"""A job is slower than its own earlier runs.

The baseline is the median of at least three runs of the same program on as many GPUs of the same model; what changed since is named. What
slows its cards or its links explains it better, and is said instead.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_RATIO = c.step_time_s / c.base_step_time_s
_FAR = c.step_time_s > c.base_step_time_s + 4 * c.base_step_time_mad_s

RULE = Rule(
    id="step-time-regression",
    scope="job",
    severity=pl.when((c.base_runs < 3) | (c.base_age_days > 60)).then(pl.lit("advice")).otherwise(pl.lit("warn")),
    bottleneck=None,
    needs=(Need(("step_time_s", "base_step_time_s", "base_step_time_mad_s", "base_runs")),),
    thresholds=(
        Threshold("step_time_ratio_opens", 1.10, "ratio", 1.01, 10.0),
        Threshold("step_time_ratio_clears", 1.03, "ratio", 1.0, 10.0),
    ),
    opens=(param("step_time_ratio_opens") <= _RATIO) & _FAR,
    clears=param("step_time_ratio_clears") >= _RATIO,
    unless=c.told_phase.is_in(["eval", "checkpoint", "init"]) | (c.steps < 50),
    yields_to=(
        "hw-slowdown-active",
        "thermal-drift-vs-peers",
        "power-cap-limited",
        "clocks-locked-low",
        "pcie-link-degraded",
        "ib-port-errors-or-congestion",
        "gpu-co-tenant-contention",
        "cgroup-cpu-throttled",
        "collective-hang",
        "gpu-slow-outlier",
    ),
    title=_("The job is slower than its own earlier runs"),
    summary=_(
        "A step takes {step_time_s:.3f} s; in {base_runs:.0f} earlier runs it took {base_step_time_s:.3f} s. Changed since: {base_changes}."
    ),
    cases=(
        Says(
            c.base_changes.is_null(),
            _(
                "A step takes {step_time_s:.3f} s; in {base_runs:.0f} earlier runs it took {base_step_time_s:.3f} s. Versions, nodes and flags are the same as far as they are known."
            ),
        ),
    ),
    evidence=(
        Show("step_time_s", "seconds"),
        Show("base_step_time_s", "seconds"),
        Show("base_step_time_mad_s", "seconds"),
        Show("base_runs", "runs"),
        Show("data_wait_share", "ratio"),
        Show("comm_share", "ratio"),
        Show("sm_active", "ratio"),
        Show("sm_clock_p95_ratio", "ratio"),
    ),
    change=(
        Step(
            "diff",
            "- {base_changes}\n+ # the version before, on one node, for 200 steps: twice in turn",
            when=c.base_changes.is_not_null(),
        ),
        Step("command", "fettle run -- python train.py  # what limits it now, beside the report of an earlier run"),
    ),
    gain=Expect(1.0, _RATIO, _("Arithmetic: back to the baseline's step time.")),
    recovers=(1 - 1 / _RATIO).clip(0, 1),
    risk=_("None."),
    rollback=_("Nothing to roll back; where the change is wanted, the baseline follows after three runs."),
    verify=_("The median step time within {step_time_ratio_clears:.2f} of its baseline over 200 steps."),
    sources=("the job's own earlier runs",),
)
