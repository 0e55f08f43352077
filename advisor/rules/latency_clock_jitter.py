"""A service's latency follows the clock of its GPU up and down.

Between requests the card lets its clock fall and raises it with the next: at low rates each request begins slow. Not where requests queue,
and not where the card is braked: those have rules of their own.
"""

import polars as pl

from advisor.rule import Expect, Need, Rule, Show, Step, Threshold, param
from advisor.text import _

c = pl.col

RULE = Rule(
    id="latency-clock-jitter",
    scope="service",
    severity="advice",
    bottleneck="clocks",
    group="clocks",
    needs=(Need(("sm_clock_cv", "latency_clock_corr", "e2e_p95_ratio"), "medium"),),
    thresholds=(
        Threshold("e2e_p95_ratio_opens", 2.0, "ratio", 1.1, 20.0),
        Threshold("e2e_p95_ratio_clears", 1.5, "ratio", 1.0, 20.0),
        Threshold("sm_clock_cv_opens", 0.08, "ratio", 0.01, 1.0),
        Threshold("sm_clock_cv_clears", 0.04, "ratio", 0.0, 1.0),
        Threshold("latency_clock_corr_opens", 0.4, "ratio", 0.1, 1.0),
    ),
    opens=(c.e2e_p95_ratio >= param("e2e_p95_ratio_opens"))
    & (c.sm_clock_cv >= param("sm_clock_cv_opens"))
    & (c.latency_clock_corr >= param("latency_clock_corr_opens")),
    clears=(c.e2e_p95_ratio < param("e2e_p95_ratio_clears")) | (c.sm_clock_cv < param("sm_clock_cv_clears")),
    unless=(c.waiting_share >= 0.1) | (c.hw_slowdown_share > 0.01) | (c.age_s < 180),
    yields_to=("hw-slowdown-active", "background-job-latency-spikes", "gpu-co-tenant-contention"),
    title=_("Latency follows the GPU's clock up and down"),
    summary=_(
        "The slowest requests take {e2e_p95_ratio:.1f} times the median, the SM clock varies by {sm_clock_cv:.0%} of its mean, and the two"
        " go together (correlation {latency_clock_corr:.2f})."
    ),
    evidence=(
        Show("e2e_p95_ratio", "ratio", ">=", "e2e_p95_ratio_opens"),
        Show("sm_clock_cv", "ratio", ">=", "sm_clock_cv_opens"),
        Show("latency_clock_corr", "ratio", ">=", "latency_clock_corr_opens"),
        Show("finished_per_s", "per_second"),
        Show("busy", "ratio"),
    ),
    change=(
        Step("command", "systemctl enable --now nvidia-persistenced", when=~c.persistence_mode),
        Step(
            "command", "nvidia-smi -q -d SUPPORTED_CLOCKS && nvidia-smi -lgc MIN,MAX  # a clock that the card sustains under load"
        ),
    ),
    gain=Expect(
        1.0,
        1.4,
        _("The slowest requests become 10 to 40 % faster at low rates; at saturation nothing changes."),
        wins_time_back=False,
    ),
    risk=_("An idle card draws 20 to 60 W more, and is warmer."),
    rollback=_("nvidia-smi -rgc"),
    verify=_(
        "The clock varies by less than 2 %, and the ratio of the slowest requests to the median falls by a fifth over 24 hours."
    ),
    measure="e2e_mean_s",
    sources=("docs.nvidia.com/deploy/driver-persistence/", _("nvidia-smi manual: --lock-gpu-clocks")),
)
