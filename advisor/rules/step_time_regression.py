"""A job is slower than the earlier runs of its family.

The baseline is the median of at least three runs by the same user of the same name on as many GPUs of the same model, with the same batch
where it is told; the first slow run is named, and what changed with it. Steps that grow slowly from run to run never pass a median that
follows them: they are judged by their slope. What slows its cards or its links explains it better, and is said instead.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_RATIO = c.step_time_s / c.base_step_time_s
_FAR = c.step_time_s > c.base_step_time_s + 4 * c.base_step_time_mad_s
_SLOWER = (param("step_time_ratio_opens") <= _RATIO) & _FAR
_DRIFTS = (c.base_drift_low_ratio >= param("drift_low_ratio_opens")).fill_null(False)
_LOSS = pl.max_horizontal(_RATIO, c.base_drift_ratio)

RULE = Rule(
    id="step-time-regression",
    scope="job",
    severity=pl.when((c.base_runs < 3) | (c.base_age_days > 60)).then(pl.lit("advice")).otherwise(pl.lit("warn")),
    bottleneck=None,
    needs=(Need(("step_time_s", "base_step_time_s", "base_step_time_mad_s", "base_runs")),),
    thresholds=(
        Threshold("step_time_ratio_opens", 1.10, "ratio", 1.01, 10.0),
        Threshold("step_time_ratio_clears", 1.03, "ratio", 1.0, 10.0),
        Threshold("drift_low_ratio_opens", 1.05, "ratio", 1.01, 10.0),
        Threshold("drift_low_ratio_clears", 1.02, "ratio", 1.0, 10.0),
    ),
    opens=_SLOWER | _DRIFTS,
    clears=(param("step_time_ratio_clears") >= _RATIO)
    & (c.base_drift_low_ratio < param("drift_low_ratio_clears")).fill_null(True),
    unless=c.told_phase.is_in(["eval", "checkpoint", "init"]) | (c.steps < 50) | c.base_other_work.fill_null(False),
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
            ~_SLOWER & _DRIFTS,
            _(
                "Steps grow slowly from run to run: over {base_drift_days:.0f} days to {base_drift_ratio:.2f} times, at least {base_drift_low_ratio:.2f} times (95 %). A step takes {step_time_s:.3f} s now."
            ),
        ),
        Says(
            c.base_first_bad_run.is_not_null() & c.base_changes.is_not_null(),
            _(
                "A step takes {step_time_s:.3f} s; in {base_runs:.0f} earlier runs it took {base_step_time_s:.3f} s. The first slow run is {base_first_bad_run}, begun {base_first_bad_at}; slow runs since: {base_bad_runs:.0f}. Changed with it: {base_changes}."
            ),
        ),
        Says(
            c.base_first_bad_run.is_not_null(),
            _(
                "A step takes {step_time_s:.3f} s; in {base_runs:.0f} earlier runs it took {base_step_time_s:.3f} s. The first slow run is {base_first_bad_run}, begun {base_first_bad_at}; slow runs since: {base_bad_runs:.0f}. Versions, nodes and flags are the same as far as they are known."
            ),
        ),
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
        Show("base_bad_runs", "runs"),
        Show("base_drift_ratio", "ratio"),
        Show("base_drift_low_ratio", "ratio", ">=", "drift_low_ratio_opens"),
        Show("base_drift_days", "days"),
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
    gain=Expect(1.0, _LOSS, _("Arithmetic: back to the baseline's step time.")),
    risk=_("None."),
    rollback=_("Nothing to roll back; where the change is wanted, the baseline follows after ten runs."),
    verify=_("The median step time within {step_time_ratio_clears:.2f} of its baseline over 200 steps."),
    sources=(_("the job's own earlier runs"),),
)
