"""A sample costs more energy than it did in the earlier runs of the job's family: since which run, and what changed with it."""

import polars as pl

from advisor.rule import Expect, Need, Rule, Says, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

_RATIO = c.energy_j_per_sample / c.base_energy_j_per_sample
_FAR = c.energy_j_per_sample > c.base_energy_j_per_sample + 4 * c.base_energy_mad

RULE = Rule(
    id="energy-cost-per-unit-regression",
    scope="job",
    severity=pl.when(c.idle_share_day >= 0.2).then(pl.lit("warn")).otherwise(pl.lit("advice")),
    bottleneck=None,
    needs=(Need(("energy_j_per_sample", "base_energy_j_per_sample", "base_energy_mad"), "medium"),),
    thresholds=(
        Threshold("energy_ratio_opens", 1.15, "ratio", 1.01, 10.0),
        Threshold("energy_ratio_clears", 1.05, "ratio", 1.0, 10.0),
        Threshold("base_runs_opens", 3.0, "runs", 1.0, 100.0),
    ),
    opens=(param("energy_ratio_opens") <= _RATIO) & _FAR & (c.base_runs >= param("base_runs_opens")),
    clears=param("energy_ratio_clears") > _RATIO,
    unless=c.base_energy_other_work,
    yields_to=(
        "step-time-regression",
        "gpu-allocated-idle",
        "serving-underbatched",
        "gpu-slow-outlier",
        "hw-slowdown-active",
        "clocks-locked-low",
        "power-cap-limited",
    ),
    title=_("A sample costs more energy than before"),
    summary=_(
        "A sample takes {energy_j_per_sample:.3g} J; in {base_runs:.0f} earlier runs it took {base_energy_j_per_sample:.3g} J. The job's GPUs were idle {idle_share_day:.0%} of the day."
    ),
    cases=(
        Says(
            c.base_energy_first_bad_run.is_not_null() & c.base_energy_changes.is_not_null(),
            _(
                "A sample takes {energy_j_per_sample:.3g} J; in {base_runs:.0f} earlier runs it took {base_energy_j_per_sample:.3g} J. The first such run is {base_energy_first_bad_run}, begun {base_energy_first_bad_at}; runs since: {base_energy_bad_runs:.0f}. Changed with it: {base_energy_changes}."
            ),
        ),
        Says(
            c.base_energy_first_bad_run.is_not_null(),
            _(
                "A sample takes {energy_j_per_sample:.3g} J; in {base_runs:.0f} earlier runs it took {base_energy_j_per_sample:.3g} J. The first such run is {base_energy_first_bad_run}, begun {base_energy_first_bad_at}; runs since: {base_energy_bad_runs:.0f}. Versions, nodes and flags are the same as far as they are known."
            ),
        ),
        Says(
            c.idle_share_day.is_null(),
            _(
                "A sample takes {energy_j_per_sample:.3g} J; in {base_runs:.0f} earlier runs it took {base_energy_j_per_sample:.3g} J."
            ),
        ),
    ),
    evidence=(
        Show("energy_j_per_sample", "joules"),
        Show("base_energy_j_per_sample", "joules"),
        Show("base_energy_mad", "joules"),
        Show("base_energy_bad_runs", "runs"),
        Show("idle_share_day", "ratio"),
        Show("mfu", "ratio"),
        Show("sm_clock_p95_ratio", "ratio"),
    ),
    change=(
        Step("command", "fettle plan energy --help  # what of it is idle time, what the host, what the price"),
        Step(
            "diff",
            "- {base_energy_changes}\n+ # the setting before, on one node, for 200 steps",
            when=c.base_energy_changes.is_not_null(),
        ),
        Step(
            "config",
            "#SBATCH --time=04:00:00  # where it idles: hand the GPUs back",
            when=(c.idle_share_day >= 0.2) & (c.scheduler == "slurm"),
        ),
    ),
    gain=Expect(
        1.0,
        _RATIO.clip(1, 1.67),
        _(
            "Arithmetic: back to the baseline's energy of a sample; where it went into waiting, the time comes back with it, 1.67 times at most."
        ),
    ),
    risk=_("That of the change that is chosen."),
    rollback=_("Undo that change."),
    verify=_("Energy of a sample within {energy_ratio_clears:.2f} of its baseline for seven days."),
    sources=("planner energy",),
)
